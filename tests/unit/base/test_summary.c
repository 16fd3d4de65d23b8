/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/quantile.h"
#include "test.h"

TEST(finite_values)
{
    double values[] = {4, 1, 9, 2, 4};
    summary of = summary_of(values, 5);
    assert_int_equal(of.count, 5);
    assert_int_equal(of.endless, 0);
    assert_true(of.mean == 4);
    assert_true(of.sd == sqrt(38.0 / 4));
    assert_true(of.median == 4);
    assert_float_equal(of.p95, 8, 1e-12); /* 0.8 of the way from 4 to 9 */
    double one[] = {3};
    of = summary_of(one, 1);
    assert_true(of.mean == 3 && of.sd == 0 && of.median == 3 && of.p95 == 3);
    of = summary_of(one, 0);
    assert_true(of.count == 0 && isnan(of.mean) && isnan(of.sd) && isnan(of.median) &&
                isnan(of.p95));
}

/* The deviation of values that are close to each other and far from 0. */
TEST(large_values_keep_their_deviation)
{
    double values[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    summary of = summary_of(values, 3);
    assert_true(of.sd == 1);
}

TEST(trials_without_an_end_are_counted)
{
    double values[] = {INFINITY, 1, 2, 3, 4};
    summary of = summary_of(values, 5);
    assert_int_equal(of.endless, 1);
    assert_true(of.mean == INFINITY && of.sd == INFINITY && of.p95 == INFINITY);
    assert_true(of.median == 3);
}
