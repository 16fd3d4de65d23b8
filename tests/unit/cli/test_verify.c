/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/job/verify.h"

static void distances_are_relative(void **state)
{
    (void)state;
    const double truth[] = {3, -4, 0};
    const float estimate[] = {3, -3, 1};
    double error, squared;
    verify_estimate(truth, estimate, 3, &error, &squared);
    assert_true(error == 0.25);
    assert_true(squared == 2.0 / 25.0);
}

static void a_sum_of_zero(void **state)
{
    (void)state;
    const double truth[] = {0, 0};
    const float right[] = {0, 0}, wrong[] = {0, 1e-30F};
    double error, squared;
    verify_estimate(truth, right, 2, &error, &squared);
    assert_true(error == 0 && squared == 0);
    verify_estimate(truth, wrong, 2, &error, &squared);
    assert_true(isinf(error) && isinf(squared));
}

/* The gradient of a model that fits its data all but perfectly: float32 has nothing of it. */
static void what_float32_does_not_hold(void **state)
{
    (void)state;
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

static void a_number_that_is_none_never_passes(void **state)
{
    (void)state;
    const double truth[] = {1, 1, 1};
    const float estimates[][3] = {{NAN, 1, 1}, {1, 1, NAN}, {1, INFINITY, 2}};
    for (size_t i = 0; i < 3; i++) {
        double error, squared;
        verify_estimate(truth, estimates[i], 3, &error, &squared);
        assert_true(isinf(error) && isinf(squared));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_relative),
        cmocka_unit_test(a_sum_of_zero),
        cmocka_unit_test(what_float32_does_not_hold),
        cmocka_unit_test(a_number_that_is_none_never_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
