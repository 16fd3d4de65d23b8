/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/output/event_log.h"
#include "test.h"

TEST(units_per_second)
{
    rate its;
    rate_begin(&its, 100, 50);
    assert_relative(rate_look(&its, 100, 50), 0, 1e-9);
    assert_relative(rate_look(&its, 104, 50.5), 8, 1e-9);
    assert_relative(rate_look(&its, 106, 52), 3, 1e-9);
    assert_relative(rate_look(&its, 106, 53), 2, 1e-9);
}

/* It was slow for an hour: soon nothing of that is left, whether a unit takes long or not. */
TEST(only_what_was_of_late_counts)
{
    for (int slow = 0; slow < 2; slow++) {
        double unit = slow ? 40 : 0.01, now = 3600, last = 0;
        rate its;
        rate_begin(&its, 0, 0);
        uint64_t done = 1;
        rate_look(&its, done, now);
        double end = now + (slow ? RATE_MARKS * unit : (RATE_MARKS + 1) * RATE_STEP);
        while (now < end) {
            now += unit;
            last = rate_look(&its, ++done, now);
        }
        assert_true(fabs(last * unit - 1) < 1e-6);
    }
}

TEST(what_is_passed_over_does_not_count)
{
    rate its;
    rate_begin(&its, 0, 0);
    rate_pass_over(&its, 59);
    assert_relative(rate_look(&its, 1, 60), 1, 1e-9);
    assert_relative(rate_look(&its, 2, 61), 1, 1e-9);
    rate_pass_over(&its, 100);
    assert_relative(rate_look(&its, 3, 162), 1, 1e-9);
}
