/* SPDX-License-Identifier: Apache-2.0 */
/* The log of committed sums on disk: what a server that starts again gets of it. */
#include <stdio.h>
#include <unistd.h>

#include "cli/checkpoint/history.h"
#include "test.h"
#include "test_file.h"

static char path[64];

#define ANEW UINT64_MAX

static int set_up(void **state)
{
    snprintf(path, sizeof(path), "sums.%ld", (long)getpid());
    remove(path);
    return 0;
}

static int tear_down(void **state)
{
    return remove(path);
}

static tarry_sum_id entry(uint64_t step, uint32_t term, uint32_t attempt)
{
    return (tarry_sum_id){step, term, attempt, step * 1000 + term * 10 + attempt};
}

static void assert_is(tarry_sum_id found, tarry_sum_id wanted)
{
    assert_int_equal(found.step, wanted.step);
    assert_int_equal(found.term, wanted.term);
    assert_int_equal(found.attempt, wanted.attempt);
    assert_int_equal(found.digest, wanted.digest);
}

/* Opens it for a run that goes on after so many steps, and appends `count` more of the term. */
static tarry_sum_log run(uint64_t steps, uint64_t count)
{
    sums_file *file;
    tarry_sum_log log;
    assert_ok(sums_file_open(path, steps != ANEW, steps, &file, &log, NULL));
    uint64_t first = steps == ANEW ? 1 : steps + 1;
    for (uint64_t step = first; step < first + count; step++) {
        const tarry_sum_id next = entry(step, log.term, (uint32_t)step);
        assert_ok(log.append(log.user, &next));
    }
    sums_file_close(file);
    return log;
}

TEST_SET_UP(a_new_run_begins_with_nothing, set_up, tear_down)
{
    tarry_sum_log log = run(ANEW, 3);
    assert_int_equal(log.term, 1);
    assert_int_equal(log.last[0].step, 0);
    log = run(ANEW, 1); /* what is there is of another run */
    assert_int_equal(log.term, 1);
    log = run(1, 0);
    assert_is(log.last[0], entry(1, 1, 1));
}

TEST_SET_UP(a_run_goes_on_with_the_last_two, set_up, tear_down)
{
    run(ANEW, 5);
    tarry_sum_log log = run(5, 2);
    assert_int_equal(log.term, 2);
    assert_is(log.last[0], entry(5, 1, 5));
    assert_is(log.last[1], entry(4, 1, 4));
    log = run(7, 0);
    assert_int_equal(log.term, 3);
    assert_is(log.last[0], entry(7, 2, 7));
    assert_is(log.last[1], entry(6, 2, 6));
}

TEST_SET_UP(what_is_behind_the_checkpoint_is_void, set_up, tear_down)
{
    run(ANEW, 5);
    tarry_sum_log log = run(3, 1);
    assert_int_equal(log.term, 2);
    assert_is(log.last[0], entry(3, 1, 3));
    log = run(4, 0);
    assert_int_equal(log.term, 3);
    assert_is(log.last[0], entry(4, 2, 4));
    assert_is(log.last[1], entry(3, 1, 3));
    sums_file *file;
    tarry_diagnostic why;
    assert_int_equal(sums_file_open(path, true, 5, &file, &log, &why), TARRY_ERROR_FORMAT);
    assert_says(why.text, "not all steps");
}

TEST_SET_UP(a_return_uses_up_its_term, set_up, tear_down)
{
    run(ANEW, 5);
    assert_int_equal(run(3, 0).term, 2); /* nothing was committed in it */
    assert_int_equal(run(3, 0).term, 3);
    run(ANEW, 0);
    assert_int_equal(run(0, 0).term, 2);
    assert_int_equal(run(0, 0).term, 3);
}

TEST_SET_UP(what_is_torn_is_cut_off, set_up, tear_down)
{
    run(ANEW, 3);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, SUMS_HEAD_BYTES + 3 * SUMS_ENTRY_BYTES + 5, SEEK_SET), 0);
    assert_int_equal(fputc(0xff, file), 0xff);
    assert_int_equal(fclose(file), 0);
    tarry_sum_log log = run(2, 1);
    assert_is(log.last[0], entry(2, 1, 2));
    assert_int_equal(truncate(path, SUMS_HEAD_BYTES + 5 * SUMS_ENTRY_BYTES - 1), 0);
    log = run(2, 0);
    assert_is(log.last[0], entry(2, 1, 2));
}

TEST_SET_UP(no_bytes_do_harm, set_up, tear_down)
{
    run(ANEW, 3);
    uint8_t bytes[SUMS_HEAD_BYTES + 4 * SUMS_ENTRY_BYTES]; /* the start, and three steps */
    assert_int_equal(read_file(path, bytes, sizeof(bytes)), sizeof(bytes));
    for (size_t at = 0; at < sizeof(bytes); at++) {
        tarry_sum_id last[2];
        uint32_t term;
        size_t valid;
        tarry_diagnostic why;
        bytes[at] ^= 0x40;
        size_t whole = at < SUMS_HEAD_BYTES ? 0 : (at - SUMS_HEAD_BYTES) / SUMS_ENTRY_BYTES;
        uint64_t steps = whole > 1 ? whole - 1 : 0;
        int error = sums_file_read(bytes, sizeof(bytes), steps, last, &term, &valid, &why);
        assert_int_equal(error, at < SUMS_HEAD_BYTES ? TARRY_ERROR_FORMAT : TARRY_OK);
        if (error == TARRY_OK) {
            assert_int_equal(valid, SUMS_HEAD_BYTES + whole * SUMS_ENTRY_BYTES);
        }
        bytes[at] ^= 0x40;
    }
}

/* Where the log is, and the entry of an earlier step; a start that went back counts. */
TEST_SET_UP(a_log_may_be_ahead, set_up, tear_down)
{
    tarry_diagnostic why;
    tarry_sum_id found;
    uint64_t newest = 0;
    run(ANEW, 7);
    assert_ok(sums_file_newest(path, 4, &newest, &found, &why));
    assert_int_equal(newest, 7);
    assert_is(found, entry(4, 1, 4));
    tarry_sum_log log = run(7, 0); /* a start that stays there */
    assert_is(log.last[0], entry(7, 1, 7));
    assert_ok(sums_file_newest(path, 4, &newest, &found, &why));
    assert_int_equal(newest, 7);
    run(4, 1); /* one that goes back, and a step */
    assert_ok(sums_file_newest(path, 4, &newest, &found, &why));
    assert_int_equal(newest, 5);
    assert_is(found, entry(4, 1, 4));
    assert_int_equal(sums_file_newest(path, 6, &newest, &found, &why), TARRY_ERROR_FORMAT);
}
