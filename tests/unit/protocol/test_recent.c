/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/random.h"
#include "protocol/steering/estimate.h"
#include "protocol/steering/recent.h"
#include "seed.h"
#include "test.h"

static const uint64_t MS = 1000000;

/* Worked out by hand. */
TEST(is_median_plus_four_deviations)
{
    recent past = {0};
    assert_int_equal(recent_limit_ns(&past), 0);
    recent_add(&past, 800 * MS);
    assert_int_equal(recent_limit_ns(&past), (800 + 4 * 400) * MS); /* as RFC 6298 */
    const uint64_t more[] = {100, 200, 300, 400, 500, 600, 700, 900, 1000};
    for (size_t i = 0; i < 9; i++)
        recent_add(&past, more[i] * MS);
    /* The median of ten is 500, the deviations from it are 0, 100 twice, 200 twice, ... : 200. */
    /* 500 + 4 * 1.4826 * 200 is less than 3 times the lesser of the last two. */
    assert_int_equal(recent_limit_ns(&past), 2700 * MS);
    recent_add(&past, 50 * MS); /* the median is 500, the deviations' too: 300 */
    assert_in_range(recent_limit_ns(&past), 2279 * MS, 2280 * MS);
}

TEST(keeps_the_latest)
{
    recent past = {0};
    for (uint64_t i = 0; i < 100; i++)
        recent_add(&past, i < 50 ? 1000 * MS : 10 * MS);
    assert_int_equal(past.count, RECENT_TIMES);
    assert_int_equal(recent_limit_ns(&past), 30 * MS);
    for (uint64_t i = 0; i < 3; i++)
        recent_add(&past, UINT64_MAX);
    assert_true(past.times_us[RECENT_TIMES - 1] == UINT32_MAX);
    assert_true(recent_limit_ns(&past) > 3600 * 1000 * MS);
}

static int by_value(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

TEST(the_median_is_that_of_sorted_values)
{
    random_stream stream = random_stream_make(test_seed("protocol/recent", 1), 0, 0, 0);
    for (int trial = 0; trial < 2000; trial++) {
        uint32_t values[RECENT_TIMES], sorted[RECENT_TIMES];
        uint32_t count = 1 + random_below(&stream, RECENT_TIMES);
        for (uint32_t i = 0; i < count; i++)
            values[i] = sorted[i] = random_below(&stream, 20);
        qsort(sorted, count, sizeof(*sorted), by_value);
        assert_int_equal(recent_median_of(values, count), sorted[(count - 1) / 2]);
    }
}

/* A peer that answers in 8 to 12 ms and hangs for 3 s once in 12 times: mean and deviation would
 * wait for minutes in all before they give it up; the median does not know that it hung. */
TEST(rare_stalls_leave_the_limit_alone)
{
    random_stream stream = random_stream_make(test_seed("protocol/recent", 1), 0, 0, 1);
    recent past = {0};
    estimate mean = {0};
    uint64_t highest = 0, highest_of_mean = 0;
    for (int i = 0; i < 600; i++) {
        uint64_t time = i % 12 == 5 ? 3000 * MS : (8 + random_below(&stream, 5)) * MS;
        recent_add(&past, time);
        estimate_add(&mean, time);
        if (i < 12)
            continue;
        uint64_t limit = recent_limit_ns(&past), other = estimate_limit_ns(&mean);
        highest = limit > highest ? limit : highest;
        highest_of_mean = other > highest_of_mean ? other : highest_of_mean;
    }
    assert_true(highest <= 40 * MS);
    assert_true(highest_of_mean >= 3000 * MS);
}

/* Each answer takes longer than the one before: the limit is always ahead of the next. */
TEST(follows_delays_that_grow)
{
    const double factors[] = {1.02, 1.1, 1.3, 1.6};
    for (size_t i = 0; i < 4; i++) {
        recent past = {0};
        double time = 1e6;
        for (int answer = 0; answer < 60 && time < 1e12; answer++, time *= factors[i]) {
            if (answer > 0)
                assert_true((double)recent_limit_ns(&past) > time);
            recent_add(&past, (uint64_t)time);
        }
    }
}
