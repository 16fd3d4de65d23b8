/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/quantile.h"
#include "test.h"

TEST(quantiles_are_interpolated)
{
    double values[] = {4, 1, 3, 2};
    assert_true(quantile_of(values, 4, 0) == 1);
    assert_true(quantile_of(values, 4, 0.5) == 2.5);
    assert_true(quantile_of(values, 4, 1) == 4);
    assert_true(quantile_of(values, 1, 0.95) == 1);
    assert_true(isnan(quantile_of(values, 0, 0.5)));
}

TEST(infinite_values_are_the_largest)
{
    double values[] = {INFINITY, 1, INFINITY, 2, 3};
    assert_true(quantile_of(values, 5, 0.5) == 3);
    assert_true(quantile_of(values, 5, 0.375) == 2.5);
    assert_true(quantile_of(values, 5, 0.6) == INFINITY);
    assert_true(quantile_of(values, 5, 0.9) == INFINITY);
    assert_true(quantile_of(values, 5, 1) == INFINITY);
}
