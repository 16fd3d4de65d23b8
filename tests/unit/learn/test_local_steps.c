/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/optimizer.h"

#include <math.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

enum { ROWS = 23, FEATURES = 3 };

static const double l2 = 0.25;

/* Samples of least squares, and what takes steps on them. */
typedef struct desk {
    float value[ROWS * FEATURES], label[ROWS];
    dataset data;
    objective *model;
    objective_workspace *work;
    local_steps *steps;
} desk;

static void set_up(desk *of, const local_settings *settings, objective_precision precision)
{
    random_stream stream = random_stream_make(test_seed("local", 3), RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        of->value[i] = (float)random_normal(&stream);
    for (size_t i = 0; i < ROWS; i++)
        of->label[i] = (float)random_normal(&stream);
    of->data =
        (dataset){.rows = ROWS, .features = FEATURES, .value = of->value, .label = of->label};
    const objective_settings model = {.model = MODEL_LEAST_SQUARES, .features = FEATURES, .l2 = l2};
    assert_ok(objective_create(&model, NULL, &of->model, NULL));
    assert_ok(objective_workspace_create(of->model, precision, NULL, &of->work));
    assert_ok(local_steps_create(of->model, settings, precision, NULL, &of->steps));
}

static void tear_down(desk *of)
{
    local_steps_free(of->steps);
    objective_workspace_free(of->work);
    objective_free(of->model);
}
OWNED_STRUCT_BY(desk, tear_down)

/* The gradient of samples rows[0..count-1], or first .. first + count - 1, one number after the
 * other. */
static void oracle_gradient(const desk *of, const size_t *rows, size_t first, size_t count,
                            const double *at, double *out)
{
    for (size_t k = 0; k < FEATURES; k++)
        out[k] = l2 * at[k];
    for (size_t i = 0; i < count; i++) {
        const size_t row = rows != NULL ? rows[i] : first + i;
        double apart = -(double)of->label[row];
        for (size_t k = 0; k < FEATURES; k++)
            apart += (double)of->value[row * FEATURES + k] * at[k];
        for (size_t k = 0; k < FEATURES; k++)
            out[k] += apart * (double)of->value[row * FEATURES + k] / (double)count;
    }
}

TEST(steps_are_those_of_descent)
{
    const local_settings settings = {.steps = 6, .inner = {OPTIMIZER_GD, 0.1, 0}};
    const float from[FEATURES] = {1, -2, 0.5F};
    const batch_settings batch = {.rows = ROWS, .chunks = 2, .batch = 10, .seed = 5};
    for (objective_precision precision = OBJECTIVE_SINGLE; precision <= OBJECTIVE_DOUBLE;
         precision++) {
        for (int drawn = 0; drawn < 2; drawn++) {
            OWNED(desk) of;
            set_up(&of, &settings, precision);
            double at[FEATURES] = {1, -2, 0.5}, gradient[FEATURES];
            size_t first, count, rows[ROWS];
            random_stream stream = batch_begin(&batch, 3, 1);
            batch_chunk(&batch, 1, &first, &count);
            count = drawn ? batch_count(&batch, 1) : count;
            local_steps_begin(of.steps, from);
            for (uint32_t step = 0; step < settings.steps; step++) {
                if (drawn)
                    batch_next(&batch, 1, &stream, rows);
                oracle_gradient(&of, drawn ? rows : NULL, first, count, at, gradient);
                for (size_t k = 0; k < FEATURES; k++)
                    at[k] -= 0.1 * gradient[k];
                local_steps_take(of.steps, of.work, &of.data, drawn ? rows : NULL, first, count,
                                 NULL);
                for (size_t k = 0; k < FEATURES; k++)
                    assert_true(fabs(local_steps_change(of.steps)[k] - (at[k] - from[k])) < 2e-6);
            }
        }
    }
}

/* A worker may have computed anything before: of that nothing is left in a chunk's numbers. */
TEST(what_was_before_leaves_nothing)
{
    const float here[FEATURES] = {1, -2, 0.5F}, elsewhere[FEATURES] = {9, 8, 7};
    for (optimizer_kind kind = OPTIMIZER_GD; kind <= OPTIMIZER_ADAM; kind++) {
        const local_settings settings = {.steps = 4, .inner = {kind, 0.05, OPTIMIZER_USUAL_DECAY}};
        OWNED(desk) fresh, used;
        set_up(&fresh, &settings, OBJECTIVE_SINGLE);
        set_up(&used, &settings, OBJECTIVE_SINGLE);
        local_steps_begin(used.steps, elsewhere);
        for (uint32_t step = 0; step < 3; step++)
            local_steps_take(used.steps, used.work, &used.data, NULL, 11, 12, NULL);
        local_steps_begin(fresh.steps, here);
        local_steps_begin(used.steps, here);
        for (uint32_t step = 0; step < settings.steps; step++) {
            local_steps_take(fresh.steps, fresh.work, &fresh.data, NULL, 0, 11, NULL);
            local_steps_take(used.steps, used.work, &used.data, NULL, 0, 11, NULL);
        }
        assert_memory_equal(local_steps_change(fresh.steps), local_steps_change(used.steps),
                            sizeof(here));
    }
}

#define DESK(name) TEST_OF(name, desk, of, tear_down)

/* Steps of 1e-6 from 1000, where float32's neighbours are 6e-5 apart. */
DESK(small_steps_lose_no_digits)
{
    const local_settings settings = {.steps = 3, .inner = {OPTIMIZER_GD, 1e-9, 0}};
    const float from[FEATURES] = {1000, 1000, 1000};
    set_up(of, &settings, OBJECTIVE_SINGLE);
    double at[FEATURES] = {1000, 1000, 1000}, gradient[FEATURES];
    oracle_gradient(of, NULL, 0, ROWS, at, gradient);
    local_steps_begin(of->steps, from);
    for (uint32_t step = 0; step < settings.steps; step++)
        local_steps_take(of->steps, of->work, &of->data, NULL, 0, ROWS, NULL);
    for (size_t k = 0; k < FEATURES; k++)
        assert_true(fabs(local_steps_change(of->steps)[k] / (-3e-9 * gradient[k]) - 1) < 1e-5);
}

DESK(the_tally_is_that_before_the_step)
{
    const local_settings settings = {.steps = 2, .inner = {OPTIMIZER_GD, 0.1, 0}};
    const float from[FEATURES] = {1, -2, 0.5F};
    set_up(of, &settings, OBJECTIVE_SINGLE);
    objective_tally expected = {0}, found = {0};
    objective_add_tally(of->model, of->work, &of->data, from, 2, 9, NULL, &expected);
    local_steps_begin(of->steps, from);
    local_steps_take(of->steps, of->work, &of->data, NULL, 2, 9, &found);
    assert_true(found.loss == expected.loss);
}

/* The l2 term is in the steps, once: with none a round adds it. */
DESK(means_and_samples)
{
    const local_settings none = {.steps = 0}, some = {.steps = 2, .inner = {OPTIMIZER_GD, 0.1, 0}};
    const batch_settings batch = {.rows = ROWS, .chunks = 2, .batch = 10};
    const float at[FEATURES] = {4, 8, -4}, sum[FEATURES] = {10, 20, 30};
    float mean[FEATURES];
    set_up(of, &some, OBJECTIVE_SINGLE);
    local_mean(&some, of->model, at, sum, 10, mean);
    assert_true(mean[0] == 1 && mean[1] == 2 && mean[2] == 3);
    local_mean(&none, of->model, at, sum, 10, mean);
    assert_true(mean[0] == 2 && mean[1] == 4 && mean[2] == 2);
    assert_true(local_samples(&some, &batch) == ROWS && local_samples(&none, &batch) == 10);
}

static int create(void *user, const tarry_allocator *allocator)
{
    const desk *of = user;
    const local_settings settings = {.steps = 4,
                                     .inner = {OPTIMIZER_ADAM, 0.05, OPTIMIZER_USUAL_DECAY}};
    local_steps *steps = NULL;
    int error = local_steps_create(of->model, &settings, OBJECTIVE_DOUBLE, allocator, &steps);
    local_steps_free(steps);
    return error;
}

DESK(failed_allocations_are_reported)
{
    const local_settings settings = {.steps = 1, .inner = {OPTIMIZER_GD, 1, 0}};
    set_up(of, &settings, OBJECTIVE_SINGLE);
    assert_int_equal(fail_each_allocation(create, of), 8);
}
