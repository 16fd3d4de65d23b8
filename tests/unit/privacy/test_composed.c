/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "failing_allocator.h"
#include "privacy/accountant.h"
#include "test.h"

enum { CELLS = 1 << 17 };

static composed_loss make(const loss_mechanism *one, uint64_t steps, double delta, double epsilon)
{
    const composed_aim aim = {delta, epsilon, CELLS};
    composed_loss all;
    assert_int_equal(composed_loss_make(one, steps, &aim, NULL, &all), 0);
    return all;
}

static void assert_epsilon(const loss_mechanism *one, uint64_t steps, double delta, double wanted,
                           double slack)
{
    composed_loss all = make(one, steps, delta, 0);
    double found = composed_epsilon(&all, delta);
    if (!(found > wanted - 1e-9 && found < wanted + slack))
        fail_msg("%.12g, and %.12g is wanted", found, wanted);
    composed_loss_free(&all, NULL);
}

/* Steps in which all take part are one step with less noise: T of them like noise / sqrt(T). To
 * where delta is 1e-15. */
TEST(gaussian_steps_are_one_step_with_less_noise)
{
    const uint64_t counts[] = {1, 2, 50, 1000};
    for (size_t i = 0; i < 4; i++) {
        const loss_mechanism one = {3 * sqrt((double)counts[i]), 1, LOSS_REMOVED};
        const loss_mechanism same = {3, 1, LOSS_REMOVED};
        for (double epsilon = 0.1; epsilon < 3; epsilon += 0.3)
            assert_epsilon(&one, counts[i], loss_delta(&same, epsilon), epsilon, 2e-5);
    }
}

/* The sum of three losses by three loops, of a grid so coarse that they end. */
static double three_losses(const loss_grid *grid, double epsilon)
{
    double sum = 0;
    for (size_t i = 0; i < grid->count; i++)
        for (size_t j = 0; j < grid->count; j++)
            for (size_t k = 0; k < grid->count; k++) {
                double loss = (double)(3 * grid->first + (int64_t)(i + j + k)) * grid->step;
                double mass = grid->mass[i] * grid->mass[j] * grid->mass[k];
                sum -= loss > epsilon ? mass * expm1(epsilon - loss) : 0;
            }
    return sum - expm1(3 * log1p(-grid->infinite));
}

TEST(sampled_steps_are_sums_of_losses)
{
    for (loss_direction direction = LOSS_REMOVED; direction <= LOSS_ADDED; direction++) {
        const loss_mechanism one = {0.9, 0.2, direction};
        double least, most;
        loss_grid grid;
        loss_range(&one, 1e-9, &least, &most);
        assert_int_equal(loss_grid_make(&one, (most - least) / 250, least, most, NULL, &grid), 0);
        for (double epsilon = 0; epsilon < 2; epsilon += 0.5) {
            double slow = three_losses(&grid, epsilon);
            composed_loss all = make(&one, 3, 0, epsilon);
            double fast = composed_delta(&all, epsilon);
            /* The coarse grid is the worse bound, by little. */
            if (!(fast < slow + 1e-9 && fast > 0.9 * slow - 1e-9))
                fail_msg("%d at %g: %.12g and %.12g", direction, epsilon, fast, slow);
            composed_loss_free(&all, NULL);
        }
        loss_grid_free(&grid, NULL);
    }
}

TEST(delta_and_epsilon_are_inverse)
{
    const loss_mechanism one = {1.1, 0.01, LOSS_REMOVED};
    for (double delta = 1e-15; delta < 1e-3; delta *= 100) {
        composed_loss all = make(&one, 1000, delta, 0);
        double epsilon = composed_epsilon(&all, delta);
        assert_true(fabs(composed_delta(&all, epsilon) / delta - 1) < 1e-6);
        composed_loss_free(&all, NULL);
    }
}

/* Figures of another implementation, with its grid of 1e-4 and the same way to make it. */
TEST(epsilons_are_those_of_others)
{
    const loss_mechanism a = {1.5, 0.04, LOSS_REMOVED}, b = {0.5, 0.1, LOSS_REMOVED};
    assert_epsilon(&a, 2250, 1e-5, 6.76875, 1e-3);
    assert_epsilon(&b, 10, 1e-6, 14.482599, 1e-3);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const loss_mechanism one = {1, 0.1, LOSS_ADDED};
    const composed_aim aim = {1e-5, 0, 1024};
    composed_loss all;
    (void)user;
    int error = composed_loss_make(&one, 4, &aim, allocator, &all);
    if (error == 0)
        composed_loss_free(&all, allocator);
    return error;
}

TEST(memory_may_fail)
{
    assert_int_equal(fail_each_allocation(attempt, NULL), 5);
}
