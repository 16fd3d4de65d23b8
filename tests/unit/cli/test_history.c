/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/checkpoint/history.h"
#include "file/whole_file.h"
#include "test.h"
#include "test_file.h"

OWNED_BY(history, history_free)

enum { WORKERS = 2, SEAL = HISTORY_SEAL_BYTES, MANY = 323 };

typedef struct place {
    char folder[32], path[64];
    history *past;
} place;

static void begin(place *its)
{
    *its = (place){.folder = "/tmp/tarry-test-XXXXXX"};
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->path, sizeof(its->path), "%s/log", its->folder);
    assert_ok(history_create(WORKERS, 2, &its->past));
}

static void end(place *its)
{
    history_free(its->past);
    assert_int_equal(unlink(its->path), 0);
    assert_int_equal(rmdir(its->folder), 0);
}

/* Rounds up to `count`, each of `seconds`. */
static void run(history *past, size_t count, double seconds)
{
    while (past->count < count) {
        history_round round = history_blank_round;
        round.seconds = seconds;
        round.train.loss = (double)past->count / 3;
        round.result.round = past->count;
        round.result.parts = 1;
        round.result.copies_needed = 2;
        assert_ok(history_add(past, &round));
    }
}

static void save(const place *its, uint8_t seal[SEAL])
{
    assert_ok(history_save(its->past, its->path, seal, NULL));
}

/* What history_each visited: each round has the number of its place. */
typedef struct seen {
    size_t next;
    double seconds;
} seen;

static int look(void *user, const history_round *round, objective_score train, objective_score test)
{
    seen *its = user;
    assert_int_equal(round->result.round, its->next);
    assert_true(round->train.loss == (double)its->next / 3);
    its->next++;
    assert_true(isnan(train.loss) || train.loss == (double)its->next / 3);
    assert_true(isnan(test.loss));
    its->seconds += round->seconds;
    return TARRY_OK;
}

static void expect_all(const history *past)
{
    seen its = {past->first, 0};
    assert_ok(history_each(past, look, &its, NULL));
    assert_int_equal(its.next, past->count);
    assert_true(its.seconds == past->totals.seconds);
}

/* By another process, which goes by a checkpoint of `count` rounds. */
static int find(const place *its, size_t count, const uint8_t seal[SEAL], tarry_diagnostic *why)
{
    OWNED(history) read;
    const size_t first = its->past->first;
    assert_ok(history_create(WORKERS, 2, &read));
    const int error = history_restore(NULL, its->path, first, count, seal, why);
    assert_int_equal(history_restore(read, its->path, first, count, seal, why), error);
    assert_int_equal(read->count, error == TARRY_OK ? count : 0);
    if (error == TARRY_OK) {
        assert_int_equal(read->first, first);
        expect_all(read);
    }
    return error;
}

static size_t size_of(const place *its)
{
    return size_of_file(its->path);
}

#define PLACE(name) TEST_WITH(name, place, its, begin, end)

PLACE(every_checkpoint_finds_its_rounds)
{
    uint8_t seals[4][SEAL];
    const size_t counts[4] = {0, 1, 150, 151};
    size_t size = 0;
    for (size_t i = 0; i < 4; i++) {
        run(its->past, counts[i], 0.5);
        if (i > 0) /* each line is there as soon as its round is over */
            assert_true(size_of(its) > size);
        save(its, seals[i]);
        size = size_of(its);
        for (size_t k = 0; k <= i; k++)
            assert_ok(find(its, counts[k], seals[k], NULL));
    }
    assert_int_equal(find(its, 150, seals[3], NULL), TARRY_ERROR_FORMAT);
    expect_all(its->past);
}

/* A process ended behind its log, and before its checkpoint: the next one goes on from the old. */
PLACE(rounds_behind_the_checkpoint_are_cut_off)
{
    uint8_t early[SEAL], late[SEAL], again[SEAL];
    run(its->past, 5, 1);
    save(its, late);
    const size_t five = size_of(its);
    history_clear(its->past, 0);
    run(its->past, 3, 1);
    save(its, early);
    run(its->past, 7, 1);
    save(its, late);
    const size_t seven = size_of(its);
    history_free(its->past);
    assert_ok(history_create(WORKERS, 2, &its->past));
    assert_ok(history_restore(its->past, its->path, 0, 3, early, NULL));
    assert_int_equal(size_of(its), seven);
    run(its->past, 5, 2);
    assert_int_equal(size_of(its), seven);
    expect_all(its->past);
    save(its, again);
    assert_int_equal(size_of(its), five);
    expect_all(its->past);
    assert_ok(find(its, 3, early, NULL));
    assert_ok(find(its, 5, again, NULL));
    assert_int_equal(find(its, 7, late, NULL), TARRY_ERROR_FORMAT);
}

/* Reads `count` lines from a file of these bytes. */
static bool is_found(const uint8_t *bytes, size_t size, size_t count, const uint8_t seal[SEAL])
{
    OWNED(history) past;
    assert_ok(history_create(WORKERS, 2, &past));
    assert_int_equal(test_file_make(NULL), 0);
    write_file(test_file, bytes, size);
    const int error = history_restore(past, test_file, 0, count, seal, NULL);
    assert_true(error == TARRY_OK || error == TARRY_ERROR_FORMAT);
    assert_int_equal(test_file_remove(NULL), 0);
    return error == TARRY_OK;
}

/* Wherever it is cut, a checkpoint is good whose rounds are whole; so it is after any change of a
 * byte behind them, and after none before. */
PLACE(torn_and_damaged_ones)
{
    uint8_t seals[3][SEAL], *bytes;
    size_t size, ends[3];
    for (size_t count = 0; count < 3; count++) {
        run(its->past, count, 1);
        save(its, seals[count]);
        ends[count] = size_of(its);
    }
    assert_ok(whole_file_read(its->path, &bytes, &size, NULL));
    for (size_t at = 0; at < size; at++) {
        for (size_t count = 0; count < 3; count++) {
            bytes[at] ^= 4;
            assert_int_equal(is_found(bytes, size, count, seals[count]), at >= ends[count]);
            bytes[at] ^= 4;
            assert_int_equal(is_found(bytes, at, count, seals[count]), at >= ends[count]);
        }
    }
    memory_release(NULL, bytes);
}

/* What line `number` of three would be complained of for if `change` took its place. */
static void complains(place *its, size_t number, const char *change, const char *what)
{
    uint8_t seal[SEAL];
    tarry_diagnostic why;
    char lines[3][ROUND_LINE_BYTES], expected[256];
    run(its->past, 3, 1);
    save(its, seal);
    FILE *file = fopen(its->path, "r");
    assert_non_null(file);
    for (size_t i = 0; i < 3; i++)
        assert_non_null(fgets(lines[i], sizeof(lines[i]), file));
    fclose(file);
    unlink(its->path);
    file = fopen(its->path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < 3; i++)
        fputs(i + 1 == number ? change : lines[i], file);
    fclose(file);
    assert_int_equal(find(its, 3, seal, &why), TARRY_ERROR_FORMAT);
    snprintf(expected, sizeof(expected), what, its->path);
    assert_string_equal(why.text, expected);
    unlink(its->path);
}

PLACE(a_broken_line_is_named)
{
    static char endless[ROUND_LINE_BYTES + 100];
    memset(endless, ' ', sizeof(endless) - 1);
    complains(its, 1, "tarrylog\3\n", "%s:1: this line is not a JSON object");
    complains(its, 2, "[1, 2]\n", "%s:2: this line is not a JSON object");
    complains(its, 2, "\n", "%s:2: this line is not a JSON object");
    complains(its, 3, "{\"round\":1,\"round\":2}\n", "%s:3: this line is not a JSON object");
    complains(its, 2, endless, "%s:2: this line is not a JSON object");
    complains(its, 2, "{\"round\":-1}\n", "%s:2: 'round' is missing or wrong");
    complains(its, 3, "{\"round\":2,\"lost\":false}\n", "%s:3: 'seconds' is missing or wrong");
    complains(its, 3, "{\"round\":2", "%s: it does not have all rounds of the checkpoint");
    complains(its, 3, "", "%s: it does not have all rounds of the checkpoint");
    run(its->past, 3, 1);
    uint8_t seal[SEAL];
    save(its, seal);
}

PLACE(what_was_lost_is_written_again)
{
    uint8_t seal[SEAL];
    run(its->past, 4, 1);
    save(its, seal);
    assert_int_equal(unlink(its->path), 0);
    run(its->past, 6, 1);
    save(its, seal);
    assert_ok(find(its, 6, seal, NULL));
    expect_all(its->past);
}

/* Of a file that another program made shorter nothing counts any more; what follows does. */
PLACE(a_file_that_was_cut_begins_anew)
{
    uint8_t seal[SEAL];
    run(its->past, 4, 1);
    save(its, seal);
    assert_int_equal(truncate(its->path, 100), 0);
    save(its, seal);
    assert_int_equal(its->past->first, 4);
    run(its->past, 6, 1);
    save(its, seal);
    assert_int_equal(its->past->first, 4);
    assert_int_equal(its->past->totals.rounds, 2);
    assert_ok(find(its, 6, seal, NULL));
}

/* In memory; in the folder of a file; in TMPDIR or /tmp, as the folder of the path is missing or
 * holds devices. */
TEST(all_rounds_come_back)
{
    static const char *const paths[] = {NULL, "/tmp/some.json", "here.json", "/no/folder/x.json",
                                        "/dev/null"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        OWNED(history) past;
        assert_ok(history_create(WORKERS, 2, &past));
        if (paths[i] != NULL)
            history_use_file(past, paths[i]);
        expect_all(past);
        run(past, MANY, 1);
        expect_all(past);
        run(past, MANY + 1, 1);
        expect_all(past);
    }
    assert_int_not_equal(access("here.json", F_OK), 0);
}

/* As of a disk that is full: what can't be written stays in memory until it can. */
PLACE(a_file_that_is_full_loses_none)
{
    uint8_t seal[SEAL];
    tarry_diagnostic why;
    history_use_file(its->past, its->path);
    for (int saved = 0; saved < 2; saved++) {
        limit_files(60000);
        run(its->past, MANY, 1);
        expect_all(its->past);
        if (saved) {
            assert_int_equal(history_save(its->past, its->path, seal, &why), TARRY_ERROR_FILE);
            assert_says(why.text, "/log: cannot be written: File too large");
            expect_all(its->past);
        }
        limit_files(SIZE_MAX);
        run(its->past, 2 * MANY, 1);
        expect_all(its->past);
        if (!saved) {
            history_free(its->past);
            assert_ok(history_create(WORKERS, 2, &its->past));
        }
    }
    save(its, seal);
    assert_ok(find(its, (size_t)2 * MANY, seal, NULL));
}

PLACE(a_file_of_others_is_left_alone)
{
    static const char *const texts[] = {"tarrylog\3", "{\"time\":1}\n", "x"};
    uint8_t seal[SEAL];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tarry_diagnostic why;
        write_text(its->path, texts[i]);
        assert_int_equal(history_save(its->past, its->path, seal, &why), TARRY_ERROR_FILE);
        assert_says(why.text, "/log: this is in the way: it should be the history of a run, or not "
                              "be there");
        assert_int_equal(size_of(its), strlen(texts[i]));
    }
}
