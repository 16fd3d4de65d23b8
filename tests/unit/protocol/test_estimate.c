/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/steering/estimate.h"
#include "test.h"

/* SRTT and RTTVAR by equations 2.2 and 2.3 of RFC 6298, worked out by hand. */
TEST(follows_rfc_6298)
{
    estimate times = {0};
    assert_int_equal(estimate_limit_ns(&times), 0);
    estimate_add(&times, 800);
    assert_int_equal(estimate_limit_ns(&times), 800 + 4 * 400);
    estimate_add(&times, 1600); /* deviation 400 + (800 - 400) / 4, mean 800 + 800 / 8 */
    assert_int_equal(estimate_limit_ns(&times), 900 + 4 * 500);
    estimate_add(&times, 100); /* deviation 500 + (800 - 500) / 4, mean 900 - 800 / 8 */
    assert_int_equal(estimate_limit_ns(&times), 800 + 4 * 575);
    assert_int_equal(times.samples, 3);
}

TEST(settles_on_a_steady_time)
{
    estimate times = {0};
    estimate_add(&times, 1);
    for (int i = 0; i < 300; i++)
        estimate_add(&times, 5000000);
    assert_float_equal((double)estimate_limit_ns(&times), 5e6, 10);
}
