/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of releases on disk: what a run that goes on gets of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "release/ledger_file.h"

static char path[64];

static const ledger_terms terms = {1, 1.5, 0.04};

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "ledger.%ld", (long)getpid());
    remove(path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return remove(path);
}

/* Opens it, adds so many releases, and gives back how many there are then. */
static uint64_t run(bool goes_on, uint64_t count)
{
    ledger_file *file;
    tarry_diagnostic why;
    assert_int_equal(ledger_file_open(path, goes_on, &terms, &file, &why), TARRY_OK);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(ledger_file_add(file, &why), TARRY_OK);
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
    if (strstr(why.text, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, why.text);
}

static size_t size_on_disk(void)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    fseek(stream, 0, SEEK_END);
    long size = ftell(stream);
    fclose(stream);
    return (size_t)size;
}

static void releases_add_up_over_runs(void **state)
{
    (void)state;
    assert_int_equal(run(false, 3), 3);
    assert_int_equal(run(true, 0), 3);
    assert_int_equal(run(true, 4), 7);
    assert_int_equal(size_on_disk(), LEDGER_HEAD_BYTES + 7 * LEDGER_ENTRY_BYTES);
}

static void an_entry_that_is_torn_was_no_release(void **state)
{
    (void)state;
    for (long torn = 1; torn < LEDGER_ENTRY_BYTES; torn++) {
        remove(path);
        run(false, 5);
        assert_int_equal(truncate(path, LEDGER_HEAD_BYTES + 4 * LEDGER_ENTRY_BYTES + torn), 0);
        assert_int_equal(run(true, 1), 5);
        assert_int_equal(run(true, 0), 5);
    }
    remove(path);
    run(false, 5); /* as long as one, but only half of it reached the disk */
    FILE *stream = fopen(path, "r+b");
    fseek(stream, -LEDGER_ENTRY_BYTES / 2, SEEK_END);
    assert_int_equal(fwrite("\0\0\0\0\0\0\0\0", 1, 8, stream), 8);
    fclose(stream);
    assert_int_equal(run(true, 0), 4);
}

static void damage_within_is_refused(void **state)
{
    (void)state;
    run(false, 5);
    FILE *stream = fopen(path, "r+b");
    fseek(stream, LEDGER_HEAD_BYTES + 2 * LEDGER_ENTRY_BYTES, SEEK_SET);
    fputc(9, stream);
    fclose(stream);
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, "damaged after 2 releases");
}

static void another_run_is_refused(void **state)
{
    (void)state;
    const ledger_terms others[] = {{2, 1.5, 0.04}, {1, 1.4, 0.04}, {1, 1.5, 0.05}};
    run(false, 1);
    for (size_t i = 0; i < 3; i++)
        assert_refused(true, &others[i], TARRY_ERROR_FORMAT, "another clip, noise or sample");
    assert_refused(false, &terms, TARRY_ERROR_STATE, "has released sums");
    assert_int_equal(run(true, 0), 1);
}

static void a_run_that_released_nothing_may_begin_again(void **state)
{
    (void)state;
    run(false, 0);
    assert_int_equal(run(false, 2), 2);
}

static void what_is_no_ledger_is_refused(void **state)
{
    (void)state;
    assert_refused(true, &terms, TARRY_ERROR_FILE, "No such file");
    FILE *stream = fopen(path, "wb");
    for (int i = 0; i < 100; i++)
        fputc('x', stream);
    fclose(stream);
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, "this is no ledger");
    assert_int_equal(truncate(path, 7), 0);
    assert_refused(true, &terms, TARRY_ERROR_FORMAT, "this is no ledger");
}

/* A file that may not grow: what could not be counted is no release. */
static void what_cannot_be_written_is_told(void **state)
{
    (void)state;
    ledger_file *file;
    tarry_diagnostic why;
    struct rlimit before, limit;
    assert_int_equal(ledger_file_open(path, false, &terms, &file, &why), TARRY_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = LEDGER_HEAD_BYTES + LEDGER_ENTRY_BYTES + 3;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ledger_file_add(file, &why), TARRY_OK);
    assert_int_equal(ledger_file_add(file, &why), TARRY_ERROR_FILE);
    assert_int_equal(ledger_file_releases(file), 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(ledger_file_add(file, &why), TARRY_OK);
    ledger_file_close(file);
    assert_int_equal(run(true, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(releases_add_up_over_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_entry_that_is_torn_was_no_release, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_within_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_run_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_released_nothing_may_begin_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_ledger_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
