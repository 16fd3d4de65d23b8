/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/checkpoint/history_code.h"
#include "cli/checkpoint/history_log.h"
#include "file/whole_file.h"

enum { WORKERS = 2, SEAL = HISTORY_LOG_DIGEST_SIZE };

typedef struct place {
    char folder[32], path[64];
    history *past;
} place;

static void begin(place *its)
{
    *its = (place){.folder = "/tmp/tarry-test-XXXXXX"};
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->path, sizeof(its->path), "%s/log", its->folder);
    assert_int_equal(history_create(WORKERS, 2, &its->past), TARRY_OK);
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
        size_t number = past->count;
        history_round *round = history_add(past);
        assert_non_null(round);
        round->seconds = seconds;
        round->result.round = number;
        round->result.parts = 1;
        round->result.copies_needed = 2;
    }
}

static history_log *open_log(const place *its)
{
    history_log *log;
    assert_int_equal(history_log_create(its->path, &log), TARRY_OK);
    return log;
}

static void append(const place *its, history_log *log, uint8_t seal[SEAL])
{
    tarry_diagnostic why;
    assert_int_equal(history_log_append(log, its->past, seal, &why), TARRY_OK);
}

/* By another process, which goes by a checkpoint of `count` rounds. */
static int find(const place *its, size_t count, const uint8_t seal[SEAL])
{
    tarry_diagnostic why;
    history_log *log = open_log(its);
    history *read;
    assert_int_equal(history_create(WORKERS, 2, &read), TARRY_OK);
    int error = history_log_read(log, count, seal, NULL, &why);
    assert_int_equal(history_log_read(log, count, seal, read, &why), error);
    assert_int_equal(read->count, error == TARRY_OK ? count : 0);
    assert_int_equal(read->first, its->past->first);
    for (size_t i = read->first; i < read->count; i++) {
        history_round one, other;
        assert_int_equal(history_round_at(read, i, &one, &why), TARRY_OK);
        assert_int_equal(history_round_at(its->past, i, &other, &why), TARRY_OK);
        assert_int_equal(one.result.round, i);
        assert_true(one.seconds == other.seconds);
    }
    history_free(read);
    history_log_free(log);
    return error;
}

static size_t size_of(const place *its)
{
    struct stat status;
    assert_int_equal(stat(its->path, &status), 0);
    return (size_t)status.st_size;
}

static size_t end_of(size_t rounds)
{
    return HISTORY_LOG_HEAD_BYTES + rounds * HISTORY_ROUND_BYTES;
}

static void every_checkpoint_finds_its_rounds(void **state)
{
    (void)state;
    place its;
    begin(&its);
    history_log *log = open_log(&its);
    uint8_t seals[4][SEAL];
    const size_t counts[4] = {0, 1, 150, 151};
    for (size_t i = 0; i < 4; i++) {
        run(its.past, counts[i], 0.5);
        append(&its, log, seals[i]);
        assert_int_equal(size_of(&its), end_of(counts[i]));
        for (size_t k = 0; k <= i; k++)
            assert_int_equal(find(&its, counts[k], seals[k]), TARRY_OK);
    }
    assert_int_equal(find(&its, 150, seals[3]), TARRY_ERROR_FORMAT);
    history_log_free(log);
    end(&its);
}

/* A process ended behind its log, and before its checkpoint: the next one goes on from the old. */
static void rounds_behind_the_checkpoint_are_cut_off(void **state)
{
    (void)state;
    place its;
    tarry_diagnostic why;
    begin(&its);
    uint8_t early[SEAL], late[SEAL], again[SEAL];
    history_log *log = open_log(&its);
    run(its.past, 3, 1);
    append(&its, log, early);
    run(its.past, 7, 1);
    append(&its, log, late);
    history_log_free(log);
    log = open_log(&its);
    assert_int_equal(history_log_read(log, 3, early, its.past, &why), TARRY_OK);
    assert_int_equal(size_of(&its), end_of(7));
    run(its.past, 5, 2);
    append(&its, log, again);
    assert_int_equal(size_of(&its), end_of(5));
    assert_int_equal(find(&its, 3, early), TARRY_OK);
    assert_int_equal(find(&its, 5, again), TARRY_OK);
    assert_int_equal(find(&its, 7, late), TARRY_ERROR_FORMAT);
    history_log_free(log);
    end(&its);
}

/* Wherever it is cut, a checkpoint is good whose rounds are whole; so it is after any change of a
 * byte behind them, and after none before. */
static void torn_and_damaged_ones(void **state)
{
    (void)state;
    place its;
    begin(&its);
    uint8_t seals[3][SEAL], *bytes;
    size_t size, first;
    history_log *log = open_log(&its);
    for (size_t count = 0; count < 3; count++) {
        run(its.past, count, 1);
        append(&its, log, seals[count]);
    }
    assert_int_equal(whole_file_read(its.path, &bytes, &size, NULL), TARRY_OK);
    for (size_t at = 0; at < size; at++) {
        for (size_t count = 0; count < 3; count++) {
            uint8_t found[SEAL], *own = malloc(size);
            assert_non_null(own);
            memcpy(own, bytes, size);
            own[at] ^= 4;
            int error = history_log_seal(own, size, count, found, &first, NULL);
            bool same = error == TARRY_OK && memcmp(found, seals[count], SEAL) == 0;
            assert_int_equal(same, at >= end_of(count));
            free(own);
            own = malloc(at > 0 ? at : 1); /* of its very size */
            assert_non_null(own);
            memcpy(own, bytes, at);
            error = history_log_seal(own, at, count, found, &first, NULL);
            assert_int_equal(error == TARRY_OK, at >= end_of(count));
            free(own);
        }
    }
    memory_release(NULL, bytes);
    history_log_free(log);
    end(&its);
}

static void what_was_lost_is_written_again(void **state)
{
    (void)state;
    place its;
    begin(&its);
    uint8_t seal[SEAL];
    history_log *log = open_log(&its);
    run(its.past, 4, 1);
    append(&its, log, seal);
    assert_int_equal(unlink(its.path), 0);
    run(its.past, 6, 1);
    append(&its, log, seal);
    assert_int_equal(find(&its, 6, seal), TARRY_OK);
    history_log_free(log);
    end(&its);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_checkpoint_finds_its_rounds),
        cmocka_unit_test(rounds_behind_the_checkpoint_are_cut_off),
        cmocka_unit_test(torn_and_damaged_ones),
        cmocka_unit_test(what_was_lost_is_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
