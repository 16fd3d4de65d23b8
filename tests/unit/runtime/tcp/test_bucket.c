/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/tcp/net/bucket.h"

#define SECOND UINT64_C(1000000000)

static const bucket_size size = {.room = 10, .per_second = 2};

static uint32_t take_all(bucket *its, uint64_t now)
{
    uint32_t taken = 0;
    while (taken < 1000 && bucket_take(its, size, 1, now))
        taken++;
    return taken;
}

static void holds_so_much_and_no_more(void **state)
{
    (void)state;
    bucket its = {0};
    assert_int_equal(take_all(&its, 7 * SECOND), 10);
    assert_int_equal(take_all(&its, 7 * SECOND), 0);
    bucket first = {0}; /* at the beginning of time, too */
    assert_int_equal(take_all(&first, 0), 10);
}

static void what_was_taken_comes_back(void **state)
{
    (void)state;
    bucket its = {0};
    take_all(&its, SECOND);
    assert_int_equal(take_all(&its, SECOND + SECOND / 4), 0);
    assert_int_equal(take_all(&its, SECOND + SECOND / 2), 1); /* half of it was there before */
    assert_int_equal(take_all(&its, 4 * SECOND), 5);
    assert_int_equal(take_all(&its, 1000 * SECOND), 10);
    assert_int_equal(take_all(&its, UINT64_MAX), 10);
}

static void one_that_is_refused_takes_nothing(void **state)
{
    (void)state;
    bucket its = {0};
    assert_false(bucket_take(&its, size, 11, SECOND));
    assert_true(bucket_take(&its, size, 6, SECOND));
    assert_false(bucket_take(&its, size, 6, SECOND));
    assert_true(bucket_take(&its, size, 4, SECOND));
    assert_true(bucket_take(&its, size, 0, SECOND));
}

static void what_is_given_fits(void **state)
{
    (void)state;
    bucket its = {0};
    take_all(&its, SECOND);
    bucket_give(&its, 3);
    assert_int_equal(take_all(&its, SECOND), 3);
    bucket_give(&its, 300);
    assert_int_equal(take_all(&its, SECOND), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_so_much_and_no_more),
        cmocka_unit_test(what_was_taken_comes_back),
        cmocka_unit_test(one_that_is_refused_takes_nothing),
        cmocka_unit_test(what_is_given_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
