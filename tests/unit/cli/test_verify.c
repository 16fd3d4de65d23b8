/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/job/gradients.h"
#include "test.h"

TEST(distances_are_relative)
{
    const double truth[] = {3, -4, 0};
    const float estimate[] = {3, -3, 1};
    double error, squared;
    verify_estimate(truth, estimate, 3, &error, &squared);
    assert_true(error == 0.25);
    assert_true(squared == 2.0 / 25.0);
}

TEST(a_sum_of_zero)
{
    const double truth[] = {0, 0};
    const float right[] = {0, 0}, wrong[] = {0, 1e-30F};
    double error, squared;
    verify_estimate(truth, right, 2, &error, &squared);
    assert_true(error == 0 && squared == 0);
    verify_estimate(truth, wrong, 2, &error, &squared);
    assert_true(isinf(error) && isinf(squared));
}

/* The gradient of a model that fits its data all but perfectly: float32 has nothing of it. */
TEST(what_float32_does_not_hold)
{
    const double truth[] = {3e-47, -2e-46}, mixed[] = {3e-47, -1};
    const float none[] = {0, 0}, wrong[] = {0, 1e-30F}, right[] = {1e-44F, -1};
    double error, squared;
    verify_estimate(truth, none, 2, &error, &squared);
    assert_true(error == 0 && squared == 0);
    verify_estimate(truth, wrong, 2, &error, &squared);
    assert_true(isinf(error) && isinf(squared));
    verify_estimate(mixed, right, 2, &error, &squared);
    assert_true(error == 0 && squared == 0);
}

TEST(a_number_that_is_none_never_passes)
{
    const double truth[] = {1, 1, 1};
    const float estimates[][3] = {{NAN, 1, 1}, {1, 1, NAN}, {1, INFINITY, 2}};
    for (size_t i = 0; i < 3; i++) {
        double error, squared;
        verify_estimate(truth, estimates[i], 3, &error, &squared);
        assert_true(isinf(error) && isinf(squared));
    }
}
