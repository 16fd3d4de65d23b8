/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include <tarry/error.h>

#include "base/quantile.h"
#include "cli/checkpoint/sketch.h"

enum { MANY = 50000 };

static const double quantiles[] = {0, 0.05, 0.5, 0.95, 0.999, 1};

static void no_and_few_values_are_exact(void **state)
{
    (void)state;
    sketch *times;
    double values[SKETCH_EXACT];
    assert_int_equal(sketch_create(&times), TARRY_OK);
    assert_true(isnan(sketch_quantile(times, 0.5)));
    for (size_t i = 0; i < SKETCH_EXACT; i++) {
        values[i] = (double)((i * 2654435761U) % 1000003) * 1e-6;
        sketch_add(times, values[i]);
    }
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        assert_true(sketch_quantile(times, quantiles[i]) ==
                    quantile_of(values, SKETCH_EXACT, quantiles[i]));
    sketch_free(times);
}

/* Against all values, sorted: the one of the same rank. */
static void many_are_within_the_error(void **state)
{
    (void)state;
    sketch *times, *copy;
    double *values = malloc(MANY * sizeof(*values));
    assert_non_null(values);
    assert_int_equal(sketch_create(&times), TARRY_OK);
    for (uint32_t spread = 1; spread <= 7; spread += 3) {
        sketch_clear(times);
        for (size_t i = 0; i < MANY; i++) {
            const double draw = (double)((i * 2654435761U) % 999983) / 999983;
            values[i] = 1e-3 * pow(10, spread * (draw - 0.5));
            sketch_add(times, values[i]);
        }
        quantile_of(values, MANY, 0); /* sorts */
        assert_int_equal(sketch_copy(times, &copy), TARRY_OK);
        for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
            const double right = values[(size_t)(quantiles[i] * (MANY - 1))];
            const double found = sketch_quantile(copy, quantiles[i]);
            assert_true(fabs(found - right) <= 1.0001 * SKETCH_ERROR * right);
        }
        sketch_free(copy);
    }
    sketch_free(times);
    free(values);
}

static void values_beyond_all_bounds_count_as_these(void **state)
{
    (void)state;
    sketch *times;
    assert_int_equal(sketch_create(&times), TARRY_OK);
    for (size_t i = 0; i < 2 * SKETCH_EXACT; i++)
        sketch_add(times, i % 2 ? 0 : 1e300);
    assert_true(fabs(sketch_quantile(times, 0.25) / 1e-9 - 1) < 2 * SKETCH_ERROR);
    assert_true(fabs(sketch_quantile(times, 0.75) / 1e9 - 1) < 2 * SKETCH_ERROR);
    sketch_free(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_and_few_values_are_exact),
        cmocka_unit_test(many_are_within_the_error),
        cmocka_unit_test(values_beyond_all_bounds_count_as_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
