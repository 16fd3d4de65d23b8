/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/bucket.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)

static const bucket_size size = {.room = 10, .per_second = 2};

static uint32_t take_all(bucket *its, uint64_t now)
{
    uint32_t taken = 0;
    while (taken < 1000 && bucket_take(its, size, 1, now))
        taken++;
    return taken;
}

TEST(holds_so_much_and_no_more)
{
    bucket its = {0};
    assert_int_equal(take_all(&its, 7 * SECOND), 10);
    assert_int_equal(take_all(&its, 7 * SECOND), 0);
    bucket first = {0}; /* at the beginning of time, too */
    assert_int_equal(take_all(&first, 0), 10);
}

TEST(what_was_taken_comes_back)
{
    bucket its = {0};
    take_all(&its, SECOND);
    assert_int_equal(take_all(&its, SECOND + SECOND / 4), 0);
    assert_int_equal(take_all(&its, SECOND + SECOND / 2), 1); /* half of it was there before */
    assert_int_equal(take_all(&its, 4 * SECOND), 5);
    assert_int_equal(take_all(&its, 1000 * SECOND), 10);
    assert_int_equal(take_all(&its, UINT64_MAX), 10);
}

TEST(one_that_is_refused_takes_nothing)
{
    bucket its = {0};
    assert_false(bucket_take(&its, size, 11, SECOND));
    assert_true(bucket_take(&its, size, 6, SECOND));
    assert_false(bucket_take(&its, size, 6, SECOND));
    assert_true(bucket_take(&its, size, 4, SECOND));
    assert_true(bucket_take(&its, size, 0, SECOND));
}

TEST(what_is_given_fits)
{
    bucket its = {0};
    take_all(&its, SECOND);
    bucket_give(&its, 3);
    assert_int_equal(take_all(&its, SECOND), 3);
    bucket_give(&its, 300);
    assert_int_equal(take_all(&its, SECOND), 10);
}
