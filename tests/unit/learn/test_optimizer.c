/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "failing_allocator.h"
#include "learn/optimizer.h"
#include "test.h"

OWNED_BY(optimizer, optimizer_free)

/* Three steps with rate 0.1 from 1.0 along the gradients 1, -2, 0.5 reach `expected`. */
static void check_steps(optimizer_kind kind, const double expected[3])
{
    const float gradients[3] = {1, -2, 0.5F};
    const optimizer_settings settings = {kind, 0.1, OPTIMIZER_USUAL_DECAY};
    OWNED(optimizer) state;
    assert_ok(optimizer_create(&settings, 2, NULL, &state));
    float parameters[2] = {1, 1};
    for (int step = 0; step < 3; step++) {
        const float gradient[2] = {gradients[step], 0};
        optimizer_step(state, gradient, parameters);
        assert_true(fabs(parameters[0] - expected[step]) < 2e-7);
        assert_true(parameters[1] == 1);
    }
}

TEST(descent_follows_the_gradient)
{
    check_steps(OPTIMIZER_GD, (double[]){0.9, 1.1, 1.05});
}

/* Velocities 1, -1.1, -0.49. */
TEST(momentum_follows_the_velocity)
{
    check_steps(OPTIMIZER_MOMENTUM, (double[]){0.9, 1.01, 1.059});
}

/* Along 1 + 0.9, -2 - 0.99, 0.5 - 0.441. */
TEST(nesterov_looks_ahead)
{
    check_steps(OPTIMIZER_NESTEROV, (double[]){0.81, 1.109, 1.1031});
}

/* Means 0.1, -0.11, -0.049 over 0.1, 0.19, 0.271; mean squares 0.001, 0.004999, 0.005244001 over
 * 0.001, 0.001999, 0.002997001. */
TEST(adam_scales_by_the_mean_square)
{
    double first = 1 - 0.1;
    double second = first + 0.1 * (0.11 / 0.19) / sqrt(0.004999 / 0.001999);
    double third = second + 0.1 * (0.049 / 0.271) / sqrt(0.005244001 / 0.002997001);
    check_steps(OPTIMIZER_ADAM, (double[]){first, second, third});
}

/* Two steps, the state carried over, and a third one are the same as three steps. */
TEST(another_one_goes_on_from_a_state)
{
    const float gradients[3][2] = {{1, 0.25F}, {-2, 3}, {0.5F, -0.125F}};
    for (optimizer_kind kind = OPTIMIZER_GD; kind <= OPTIMIZER_ADAM; kind++) {
        const optimizer_settings settings = {kind, 0.1, OPTIMIZER_USUAL_DECAY};
        OWNED(optimizer) first, second;
        assert_ok(optimizer_create(&settings, 2, NULL, &first));
        assert_ok(optimizer_create(&settings, 2, NULL, &second));
        float expected[2] = {1, 1}, parameters[2];
        optimizer_step(first, gradients[0], expected);
        optimizer_step(first, gradients[1], expected);
        memcpy(parameters, expected, sizeof(parameters));
        const optimizer_state *from = optimizer_state_of(first);
        optimizer_state *to = optimizer_state_of(second);
        assert_int_equal(from->velocity != NULL, kind != OPTIMIZER_GD);
        assert_int_equal(from->square != NULL, kind == OPTIMIZER_ADAM);
        if (from->velocity != NULL)
            memcpy(to->velocity, from->velocity, 2 * sizeof(float));
        if (from->square != NULL)
            memcpy(to->square, from->square, 2 * sizeof(float));
        to->decayed = from->decayed;
        to->square_decayed = from->square_decayed;
        optimizer_step(first, gradients[2], expected);
        optimizer_step(second, gradients[2], parameters);
        assert_memory_equal(parameters, expected, sizeof(expected));
    }
}

static int create(void *user, const tarry_allocator *allocator)
{
    const optimizer_settings settings = {*(optimizer_kind *)user, 1, OPTIMIZER_USUAL_DECAY};
    OWNED(optimizer) state = NULL;
    return optimizer_create(&settings, 10, allocator, &state);
}

TEST(failed_allocations_are_reported)
{
    const size_t expected[] = {1, 2, 2, 3};
    for (optimizer_kind kind = OPTIMIZER_GD; kind <= OPTIMIZER_ADAM; kind++)
        assert_int_equal(fail_each_allocation(create, &kind), expected[kind]);
}
