/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of releases on disk: what a run that goes on gets of it. */
#include <stdio.h>
#include <unistd.h>

#include "release/dp.h"
#include "test.h"
#include "test_file.h"

static char path[64];

static const ledger_terms terms = {1, 1.5, 0.04};

static int set_up(void **state)
{
    snprintf(path, sizeof(path), "ledger.%ld", (long)getpid());
    remove(path);
    return 0;
}

static int tear_down(void **state)
{
    return remove(path);
}

/* Opens it, adds so many releases, and gives back how many there are then. */
static uint64_t run(bool goes_on, uint64_t count)
{
    ledger_file *file;
    assert_ok(ledger_file_open(path, goes_on, &terms, &file, NULL));
    for (uint64_t i = 0; i < count; i++)
        assert_ok(ledger_file_add(file, NULL));
    count = ledger_file_releases(file);
    ledger_file_close(file);
    return count;
}

static void assert_refused(bool goes_on, const ledger_terms *of, int error, const char *text)
{
    ledger_file *file = NULL;
    tarry_diagnostic why;
    assert_int_equal(ledger_file_open(path, goes_on, of, &file, &why), error);
    assert_null(file);
    assert_says(why.text, text);
}

TEST_SET_UP(releases_add_up_over_runs, set_up, tear_down)
{
    assert_int_equal(run(false, 3), 3);
    assert_int_equal(run(true, 0), 3);
    assert_int_equal(run(true, 4), 7);
    assert_int_equal(size_of_file(path), LEDGER_HEAD_BYTES + 7 * LEDGER_ENTRY_BYTES);
}

/* Writes `size` bytes at a place of the file. */
static void patch(long at, const void *bytes, size_t size)
{
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    fseek(stream, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    fclose(stream);
}

static long entry_at(long release)
{
    return LEDGER_HEAD_BYTES + (release - 1) * LEDGER_ENTRY_BYTES;
}

static void read_entry(long release, uint8_t entry[LEDGER_ENTRY_BYTES])
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    fseek(stream, entry_at(release), SEEK_SET);
    assert_int_equal(fread(entry, 1, LEDGER_ENTRY_BYTES, stream), LEDGER_ENTRY_BYTES);
    fclose(stream);
}

/* Whether it was used cannot be known from the file: too many is safe, too few is not. */
TEST_SET_UP(a_torn_entry_counts_and_is_completed_by_the_next, set_up, tear_down)
{
    for (long torn = 1; torn < LEDGER_ENTRY_BYTES; torn++) {
        remove(path);
        run(false, 5);
        assert_int_equal(truncate(path, entry_at(5) + torn), 0);
        assert_int_equal(run(true, 0), 5);
        assert_int_equal(size_of_file(path), (size_t)(entry_at(5) + torn)); /* nothing is changed */
        assert_int_equal(run(true, 1), 6);
        assert_int_equal(run(true, 0), 6);
        assert_int_equal(size_of_file(path), LEDGER_HEAD_BYTES + 6 * LEDGER_ENTRY_BYTES);
    }
    static const uint8_t zeros[LEDGER_ENTRY_BYTES];
    for (long kept = 0; kept < LEDGER_ENTRY_BYTES; kept++) { /* as long, but the rest got lost */
        remove(path);
        run(false, 5);
        patch(entry_at(5) + kept, zeros, (size_t)(LEDGER_ENTRY_BYTES - kept));
        assert_int_equal(run(true, 0), 5);
        assert_int_equal(run(true, 2), 7);
        assert_int_equal(run(true, 0), 7);
    }
}

static void assert_damaged_after(uint64_t releases)
{
    char text[64];
    snprintf(text, sizeof(text), "damaged after %d releases", (int)releases);
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, text);
}

TEST_SET_UP(entries_that_do_not_continue_are_refused, set_up, tear_down)
{
    uint8_t entry[LEDGER_ENTRY_BYTES], other[LEDGER_ENTRY_BYTES];
    run(false, 5);
    patch(entry_at(3), "\x09", 1); /* damage within */
    assert_damaged_after(2);
    remove(path);
    run(false, 5);
    read_entry(2, entry);
    read_entry(3, other);
    patch(entry_at(2), other, sizeof(other)); /* out of order */
    patch(entry_at(3), entry, sizeof(entry));
    assert_damaged_after(1);
    patch(entry_at(2), other, sizeof(other)); /* a gap: 1, 3 */
    assert_damaged_after(1);
    remove(path);
    run(false, 5);
    read_entry(5, entry);
    patch(entry_at(6), entry, sizeof(entry)); /* the last one, twice */
    assert_damaged_after(5);
    for (size_t size = 1; size <= 2 * LEDGER_ENTRY_BYTES + 3; size += 6) { /* garbage at the end */
        remove(path);
        run(false, 5);
        for (size_t i = 0; i < size; i++)
            patch(entry_at(6) + (long)i, "\xa5", 1);
        assert_damaged_after(5);
    }
    for (long last = 1; last <= 5; last++) { /* another ledger's entries */
        remove(path);
        run(false, 5);
        read_entry(last, entry);
        remove(path);
        run(false, 5);
        patch(entry_at(last), entry, sizeof(entry));
        assert_damaged_after((uint64_t)last - 1);
    }
}

/* What a checkpoint would keep after so many releases of a new ledger. */
static tarry_dp_mark mark_after(uint64_t count)
{
    ledger_file *file;
    remove(path);
    run(false, count);
    assert_ok(ledger_file_open(path, true, &terms, &file, NULL));
    const tarry_dp_mark mark = ledger_file_mark(file);
    ledger_file_close(file);
    assert_int_equal(mark.releases, count);
    assert_true(mark.seal != 0);
    return mark;
}

static int covers(const tarry_dp_mark *mark, uint64_t rounds, tarry_diagnostic *why)
{
    ledger_file *file;
    assert_ok(ledger_file_open(path, true, &terms, &file, why));
    const int error = ledger_file_covers(file, mark, rounds, why);
    ledger_file_close(file);
    return error;
}

/* Cut off anywhere, a ledger covers the checkpoint only if all of its releases are there, whole. */
TEST_SET_UP(a_ledger_that_was_cut_off_does_not_cover_the_checkpoint, set_up, tear_down)
{
    const tarry_dp_mark mark = mark_after(7);
    tarry_diagnostic why;
    char text[128];
    run(true, 3);
    assert_ok(covers(&mark, 6, &why));
    for (long size = entry_at(11); size >= LEDGER_HEAD_BYTES; size--) {
        assert_int_equal(truncate(path, size), 0);
        const long whole = (size - LEDGER_HEAD_BYTES) / LEDGER_ENTRY_BYTES;
        assert_int_equal(covers(&mark, 6, &why), whole >= 7 ? TARRY_OK : TARRY_ERROR_FORMAT);
        if (whole >= 7)
            continue;
        snprintf(
            text, sizeof(text),
            "counts %ld releases, but the checkpoint was written after 6 rounds and 7 releases",
            whole);
        assert_says(why.text, text);
        assert_says(why.text, "Restore the ledger");
        assert_int_equal(covers(&mark, 6, &why), TARRY_ERROR_FORMAT); /* the second time, too */
    }
}

TEST_SET_UP(a_ledger_of_another_run_does_not_cover_the_checkpoint, set_up, tear_down)
{
    tarry_diagnostic why;
    for (uint64_t count = 0; count < 5; count++) {
        const tarry_dp_mark mark = mark_after(count);
        assert_ok(covers(&mark, count, &why));
        run(true, 3); /* the same run, resumed */
        assert_ok(covers(&mark, count, &why));
        mark_after(count + 3);
        assert_int_equal(covers(&mark, count, &why), TARRY_ERROR_FORMAT);
        assert_says(why.text, "is of another run");
    }
    const tarry_dp_mark unknown = {0}; /* of a checkpoint without a mark: rounds alone */
    assert_ok(covers(&unknown, 7, &why));
    assert_int_equal(covers(&unknown, 8, &why), TARRY_ERROR_FORMAT);
}

TEST_SET_UP(a_file_that_is_not_a_ledger_is_not_overwritten, set_up, tear_down)
{
    write_text(path, "my notes");
    assert_refused(false, &terms, TARRY_ERROR_STATE, "is in the way");
    assert_int_equal(size_of_file(path), 8);
    for (long size = 0; size <= LEDGER_HEAD_BYTES; size += 5) { /* a creation that did not end */
        remove(path);
        run(false, 0);
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(run(false, 1), 1);
    }
}

TEST_SET_UP(another_run_is_refused, set_up, tear_down)
{
    const ledger_terms others[] = {{2, 1.5, 0.04}, {1, 1.4, 0.04}, {1, 1.5, 0.05}};
    run(false, 1);
    for (size_t i = 0; i < 3; i++)
        assert_refused(true, &others[i], TARRY_ERROR_FORMAT, "another clip, noise or sample");
    assert_refused(false, &terms, TARRY_ERROR_STATE, "has released sums");
    assert_int_equal(run(true, 0), 1);
}

TEST_SET_UP(a_run_that_released_nothing_may_begin_again, set_up, tear_down)
{
    run(false, 0);
    assert_int_equal(run(false, 2), 2);
}

TEST_SET_UP(what_is_no_ledger_is_refused, set_up, tear_down)
{
    assert_refused(true, &terms, TARRY_ERROR_FILE, "No such file");
    char text[100];
    memset(text, 'x', sizeof(text));
    write_file(path, text, sizeof(text));
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, "this is no ledger");
    assert_int_equal(truncate(path, 7), 0);
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, "this is no ledger");
}

/* A file that may not grow: what could not be counted is no release. */
TEST_SET_UP(what_cannot_be_written_is_told, set_up, tear_down)
{
    ledger_file *file;
    tarry_diagnostic why;
    assert_ok(ledger_file_open(path, false, &terms, &file, &why));
    limit_files(LEDGER_HEAD_BYTES + LEDGER_ENTRY_BYTES + 3);
    assert_ok(ledger_file_add(file, &why));
    assert_int_equal(ledger_file_add(file, &why), TARRY_ERROR_FILE);
    assert_int_equal(ledger_file_releases(file), 1);
    limit_files(SIZE_MAX);
    assert_ok(ledger_file_add(file, &why));
    ledger_file_close(file);
    assert_int_equal(run(true, 0), 2);
}
