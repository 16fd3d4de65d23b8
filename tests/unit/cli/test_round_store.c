/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/checkpoint/history.h"

enum { ROUNDS = 5 * ROUND_STORE_BLOCK + 3, FITTING = 2 * ROUND_STORE_BLOCK };

static void add(round_store *store, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        history_round round = history_blank_round;
        round.result.round = i;
        round.saturation = (double)i / 2;
        assert_int_equal(round_store_add(store, &round), TARRY_OK);
    }
}

static void expect(round_store *store, size_t index)
{
    history_round found;
    assert_int_equal(round_store_get(store, index, &found), TARRY_OK);
    assert_int_equal(found.result.round, index);
    assert_true(found.saturation == (double)index / 2);
}

static void expect_all(round_store *store, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(store, i);
    for (size_t i = count; i-- > 0;)
        expect(store, i);
}

static round_store *make(const char *path)
{
    round_store *store;
    assert_int_equal(round_store_create(&store), TARRY_OK);
    if (path != NULL)
        round_store_use_file(store, path);
    return store;
}

/* NULL: in memory; beside a file; a folder and a device that can hold none. */
static void all_rounds_come_back(void **state)
{
    (void)state;
    static const char *const paths[] = {NULL, "/tmp/some.json", "here.json", "/no/folder/x.json",
                                        "/dev/null"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        round_store *store = make(paths[i]);
        add(store, 0, ROUNDS);
        expect_all(store, ROUNDS);
        add(store, ROUNDS, ROUNDS + 1);
        expect(store, ROUNDS);
        round_store_clear(store);
        add(store, 0, ROUND_STORE_BLOCK + 1);
        expect_all(store, ROUND_STORE_BLOCK + 1);
        round_store_free(store);
    }
}

/* As of a disk that is full: what can't be written stays in memory. */
static void a_file_that_is_full_loses_none(void **state)
{
    (void)state;
    const rlim_t most = FITTING * sizeof(history_round) + 100;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){most, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    round_store *store = make("/tmp/some.json");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    add(store, 0, ROUNDS);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    add(store, ROUNDS, 2 * ROUNDS);
    expect_all(store, 2 * ROUNDS);
    round_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rounds_come_back),
        cmocka_unit_test(a_file_that_is_full_loses_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
