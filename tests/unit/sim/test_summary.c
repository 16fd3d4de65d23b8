/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "sim/summary.h"

static void finite_values(void **state)
{
    (void)state;
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
static void large_values_keep_their_deviation(void **state)
{
    (void)state;
    double values[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    summary of = summary_of(values, 3);
    assert_true(of.sd == 1);
}

static void trials_without_an_end_are_counted(void **state)
{
    (void)state;
    double values[] = {INFINITY, 1, 2, 3, 4};
    summary of = summary_of(values, 5);
    assert_int_equal(of.endless, 1);
    assert_true(of.mean == INFINITY && of.sd == INFINITY && of.p95 == INFINITY);
    assert_true(of.median == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_values),
        cmocka_unit_test(large_values_keep_their_deviation),
        cmocka_unit_test(trials_without_an_end_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
