/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/quantile.h"
#include "cli/checkpoint/history.h"
#include "test.h"

OWNED_BY(sketch, free)

enum { MANY = 50000 };

static const double quantiles[] = {0, 0.05, 0.5, 0.95, 0.999, 1};

TEST(no_and_few_values_are_exact)
{
    OWNED(sketch) times = checked_calloc(1, sizeof(*times));
    double values[SKETCH_EXACT];
    assert_true(isnan(sketch_quantile(times, 0.5)));
    for (size_t i = 0; i < SKETCH_EXACT; i++) {
        values[i] = (double)((i * 2654435761U) % 1000003) * 1e-6;
        sketch_add(times, values[i]);
    }
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        assert_true(sketch_quantile(times, quantiles[i]) ==
                    quantile_of(values, SKETCH_EXACT, quantiles[i]));
}

/* Against all values, sorted: the one of the same rank. */
TEST(many_are_within_the_error)
{
    OWNED(sketch) times = checked_malloc(sizeof(*times));
    OWNED(double) values = checked_malloc(MANY * sizeof(*values));
    for (uint32_t spread = 1; spread <= 7; spread += 3) {
        memset(times, 0, sizeof(*times));
        for (size_t i = 0; i < MANY; i++) {
            const double draw = (double)((i * 2654435761U) % 999983) / 999983;
            values[i] = 1e-3 * pow(10, spread * (draw - 0.5));
            sketch_add(times, values[i]);
        }
        quantile_of(values, MANY, 0); /* sorts */
        for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
            const double right = values[(size_t)(quantiles[i] * (MANY - 1))];
            const double found = sketch_quantile(times, quantiles[i]);
            assert_true(fabs(found - right) <= 1.0001 * SKETCH_ERROR * right);
        }
    }
}

TEST(values_beyond_all_bounds_count_as_these)
{
    OWNED(sketch) times = checked_calloc(1, sizeof(*times));
    for (size_t i = 0; i < 2 * SKETCH_EXACT; i++)
        sketch_add(times, i % 2 ? 0 : 1e300);
    assert_true(fabs(sketch_quantile(times, 0.25) / 1e-9 - 1) < 2 * SKETCH_ERROR);
    assert_true(fabs(sketch_quantile(times, 0.75) / 1e9 - 1) < 2 * SKETCH_ERROR);
}
