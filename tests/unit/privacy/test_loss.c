/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "failing_allocator.h"
#include "privacy/accountant.h"
#include "test.h"

static const loss_mechanism mechanisms[] = {
    {1, 1, LOSS_REMOVED},     {1.1, 0.01, LOSS_REMOVED}, {1.1, 0.01, LOSS_ADDED},
    {0.5, 0.3, LOSS_REMOVED}, {0.5, 0.3, LOSS_ADDED},    {20, 0.9, LOSS_REMOVED},
    {20, 0.9, LOSS_ADDED},    {2, 1e-4, LOSS_REMOVED},   {2, 1e-4, LOSS_ADDED},
};

#define FOR_EACH(one)                                                                              \
    for (const loss_mechanism *one = mechanisms;                                                   \
         one < mechanisms + sizeof(mechanisms) / sizeof(mechanisms[0]); one++)

static double density(const loss_mechanism *one, double x, int mixed)
{
    double s = one->noise, zero = exp(-x * x / (2 * s * s));
    double ratio = mixed ? 1 + one->sample * expm1((2 * x - 1) / (2 * s * s)) : 1;
    return ratio * zero / (s * sqrt(2 * M_PI));
}

/* By its definition: the integral of max(0, P - e^epsilon Q), or of max(0, e^epsilon Q - P). */
static double slow(const loss_mechanism *one, double epsilon, int lower)
{
    enum { CELLS = 400000 };
    double far = 15 * one->noise + 1, width = 2 * far / CELLS, sum = 0;
    int removed = one->direction == LOSS_REMOVED;
    for (int i = 0; i < CELLS; i++) {
        double x = -far + (i + 0.5) * width;
        double more = density(one, x, removed) - exp(epsilon) * density(one, x, !removed);
        sum += fmax(lower ? -more : more, 0) * width;
    }
    return sum;
}

TEST(both_curves_are_those_of_their_definition)
{
    FOR_EACH(one)
    {
        const double epsilons[] = {-3, -0.5, -1e-3, 0, 1e-3, 0.2, 1, 3};
        for (size_t i = 0; i < 8; i++) {
            double above = slow(one, epsilons[i], 0), below = slow(one, epsilons[i], 1);
            assert_true(fabs(loss_delta(one, epsilons[i]) - above) < 1e-6 * above + 1e-9);
            assert_true(fabs(loss_lower(one, epsilons[i]) - below) < 1e-6 * below + 1e-9);
        }
    }
}

/* delta at e^epsilon by the grid. */
static double delta_of(const loss_grid *grid, double epsilon)
{
    double sum = grid->infinite;
    for (size_t i = 0; i < grid->count; i++) {
        double loss = (double)(grid->first + (int64_t)i) * grid->step;
        if (loss > epsilon)
            sum -= grid->mass[i] * expm1(epsilon - loss);
    }
    return sum;
}

TEST(a_grid_meets_the_curve_at_its_points_and_is_above_it_between)
{
    FOR_EACH(one)
    {
        double least, most, sum = 0;
        loss_grid grid;
        loss_range(one, 1e-12, &least, &most);
        assert_true(least < 0 && most > 0);
        double step = (most - least) / 300;
        assert_int_equal(loss_grid_make(one, step, least, most, NULL, &grid), 0);
        for (size_t i = 0; i < grid.count; i++) {
            double loss = (double)(grid.first + (int64_t)i) * step;
            double curve = loss_delta(one, loss), between = loss_delta(one, loss + step / 2);
            assert_true(fabs(delta_of(&grid, loss) - curve) < 1e-12 + 1e-9 * curve);
            assert_true(delta_of(&grid, loss + step / 2) > between - 1e-13);
            sum += grid.mass[i];
        }
        assert_true(fabs(sum + grid.infinite - 1) < 1e-12);
        loss_grid_free(&grid, NULL);
    }
}

TEST(cumulants_are_those_of_a_sum)
{
    double mass[] = {0.25, 0, 0.75};
    const loss_grid grid = {.step = 0.5, .first = -1, .count = 3, .mass = mass};
    loss_cumulants at = loss_cumulants_at(&grid, 2);
    double low = 0.25 * exp(-1), high = 0.75 * exp(1), mean = (high - low) / (low + high) / 2;
    assert_true(fabs(at.value - log(low + high)) < 1e-15);
    assert_true(fabs(at.mean - mean) < 1e-15);
    assert_true(fabs(at.variance - (0.25 - mean * mean)) < 1e-15);
    assert_true(isfinite(loss_cumulants_at(&grid, 1e5).value));
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    loss_grid grid;
    (void)user;
    int error = loss_grid_make(&mechanisms[0], 0.1, -1, 1, allocator, &grid);
    if (error == 0)
        loss_grid_free(&grid, allocator);
    return error;
}

TEST(memory_may_fail)
{
    assert_int_equal(fail_each_allocation(attempt, NULL), 1);
}
