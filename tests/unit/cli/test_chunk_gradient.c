/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/gradients.h"

#include <math.h>

#include "base/random.h"
#include "seed.h"
#include "test.h"

OWNED_BY(chunk_gradient, chunk_gradient_free)

enum { ROWS = 31, FEATURES = 4, CHUNKS = 3 };

static const batch_settings batch = {.rows = ROWS, .chunks = CHUNKS, .batch = 12, .seed = 9};
static const local_settings local = {.steps = 5,
                                     .inner = {OPTIMIZER_ADAM, 0.05, OPTIMIZER_USUAL_DECAY}};

/* All samples, and those of each chunk as a data set of its own. */
typedef struct samples {
    float value[ROWS * FEATURES], label[ROWS];
    dataset all, own[CHUNKS];
    objective *model;
} samples;

static int set_up(void **state)
{
    static samples made;
    random_stream stream = random_stream_make(test_seed("chunk", 4), RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        made.value[i] = (float)random_normal(&stream);
    for (size_t i = 0; i < ROWS; i++)
        made.label[i] = (float)random_normal(&stream);
    made.all =
        (dataset){.rows = ROWS, .features = FEATURES, .value = made.value, .label = made.label};
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        size_t first, count;
        batch_chunk(&batch, chunk, &first, &count);
        made.own[chunk] = (dataset){.rows = count,
                                    .features = FEATURES,
                                    .value = made.value + first * FEATURES,
                                    .label = made.label + first};
    }
    const objective_settings settings = {
        .model = MODEL_LEAST_SQUARES, .features = FEATURES, .l2 = 0.1};
    *state = &made;
    return objective_create(&settings, NULL, &made.model, NULL);
}

static int tear_down(void **state)
{
    const samples *made = *state;
    objective_free(made->model);
    return 0;
}

static int fetch(void *user, uint32_t origin, const dataset **data)
{
    const samples *made = user;
    *data = &made->own[origin];
    return 0;
}

static const float start[FEATURES] = {1, -2, 3, 0.5F};

static int compute(chunk_gradient *of, uint32_t worker, uint64_t round, tarry_span span,
                   float *gradient)
{
    const tarry_task task = {
        .worker = worker,
        .round = round,
        .parameters = start,
        .spans = &span,
        .span_count = 1,
        .gradient = gradient,
    };
    return chunk_gradient_compute(of, &task);
}

/* A worker that has all samples and one that fetches those of its chunks take the same local steps,
 * whatever either computed before. */
TEST(copies_are_the_same_to_the_bit)
{
    samples *made = *state;
    OWNED(chunk_gradient) whole = NULL, fetching = NULL;
    assert_ok(chunk_gradient_create(made->model, &made->all, &batch, 1, &whole));
    assert_ok(chunk_gradient_create_fetching(made->model, fetch, made, &batch, 1, &fetching));
    assert_ok(chunk_gradient_step_locally(whole, &local));
    assert_ok(chunk_gradient_step_locally(fetching, &local));
    float one[CHUNKS][FEATURES], other[CHUNKS][FEATURES];
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const uint32_t back = CHUNKS - 1 - i;
        const tarry_span up = {.origin = i, .count = 1, .of = 1};
        const tarry_span down = {.origin = back, .count = 1, .of = 1};
        assert_int_equal(compute(whole, 0, 6, up, one[i]), 0);
        assert_int_equal(compute(fetching, 0, 6, down, other[back]), 0);
    }
    assert_memory_equal(one, other, sizeof(one));
    assert_memory_not_equal(one[0], one[1], sizeof(one[0]));
}

/* Which a server may name whose plan is not the tool's. */
TEST(a_share_of_a_chunk_takes_no_local_steps)
{
    samples *made = *state;
    const tarry_span half = {.origin = 1, .first = 1, .count = 1, .of = 2};
    float gradient[FEATURES];
    OWNED(chunk_gradient) of = NULL;
    assert_ok(chunk_gradient_create(made->model, &made->all, &batch, 1, &of));
    assert_int_equal(compute(of, 0, 6, half, gradient), 0);
    assert_ok(chunk_gradient_step_locally(of, &local));
    assert_int_not_equal(compute(of, 0, 6, half, gradient), 0);
}

static const batch_settings every = {.rows = ROWS, .chunks = CHUNKS};

enum { DRAWN_ROUNDS = 40 };

/* (x.w - y) x of each sample that the round draws, shortened to `clip`. */
static void clipped_oracle(const samples *made, const sampler *draws, uint64_t round,
                           uint32_t chunk, double clip, double sum[FEATURES])
{
    size_t first, count, rows[ROWS], drawn;
    batch_chunk(&every, chunk, &first, &count);
    assert_int_equal(sampler_draw(draws, round, first, count, rows, &drawn), 0);
    for (size_t i = 0; i < drawn; i++) {
        const float *x = made->value + rows[i] * FEATURES;
        double apart = -made->label[rows[i]], square = 0;
        for (size_t k = 0; k < FEATURES; k++) {
            apart += (double)x[k] * start[k];
            square += (double)x[k] * x[k];
        }
        double norm = fabs(apart) * sqrt(square);
        for (size_t k = 0; k < FEATURES; k++)
            sum[k] += x[k] * apart * (norm > clip ? clip / norm : 1);
    }
}

TEST(a_chunk_is_the_clipped_samples_that_are_drawn)
{
    samples *made = *state;
    privacy_keys keys;
    sampler draws = {.rate = 0.3};
    const double clip = 2;
    OWNED(chunk_gradient) whole = NULL, fetching = NULL;
    assert_int_equal(privacy_keys_of_seed(5, &keys), 0);
    memcpy(draws.key, keys.draws, sizeof(draws.key));
    assert_ok(chunk_gradient_create(made->model, &made->all, &every, 1, &whole));
    assert_ok(chunk_gradient_create_fetching(made->model, fetch, made, &every, 1, &fetching));
    assert_ok(chunk_gradient_sample(whole, &draws, clip));
    assert_ok(chunk_gradient_sample(fetching, &draws, clip));
    for (uint64_t round = 0; round < DRAWN_ROUNDS; round++) {
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
            const tarry_span all = {.origin = chunk, .count = 1, .of = 1};
            float one[FEATURES], other[FEATURES], pieces[FEATURES] = {0};
            double expected[FEATURES] = {0};
            clipped_oracle(made, &draws, round, chunk, clip, expected);
            assert_int_equal(compute(whole, 0, round, all, one), 0);
            assert_int_equal(compute(fetching, 0, round, all, other), 0);
            assert_memory_equal(one, other, sizeof(one));
            for (uint32_t piece = 0; piece < 4; piece++) {
                const tarry_span part = {.origin = chunk, .first = piece, .count = 1, .of = 4};
                float share[FEATURES];
                assert_int_equal(compute(whole, 0, round, part, share), 0);
                for (size_t k = 0; k < FEATURES; k++)
                    pieces[k] += share[k];
            }
            for (size_t k = 0; k < FEATURES; k++) {
                assert_true(fabs(one[k] - expected[k]) < 1e-5);
                assert_true(fabs(pieces[k] - expected[k]) < 1e-5);
            }
        }
    }
}

/* ---- steps that are limited in time ---- */

static const local_settings limited = {
    .steps = 5, .inner = {OPTIMIZER_GD, 0.05, 0}, .seconds = 2.5};

/* A clock that goes on by a second each time that it is asked. */
static double next_second(void *user)
{
    double *now = user;
    return *now += 1;
}

static chunk_gradient *limited_chunks(const samples *made, double *now)
{
    chunk_gradient *state;
    assert_int_equal(chunk_gradient_create(made->model, &made->all, &every, 1, &state), 0);
    assert_int_equal(chunk_gradient_step_locally(state, &limited), 0);
    assert_int_equal(chunk_gradient_limit(state, 2, next_second, now), 0);
    return state;
}

/* A chunk's part of the sum, computed by `worker`; gives back its steps. */
static double part_of(chunk_gradient *state, uint32_t worker, uint64_t round, uint32_t chunk,
                      float part[FEATURES + 2])
{
    const tarry_span span = {.origin = chunk, .count = 1, .of = 1};
    size_t first, count;
    assert_int_equal(compute(state, worker, round, span, part), 0);
    batch_chunk(&every, chunk, &first, &count);
    return part[FEATURES] / (double)count;
}

/* x - y after so many steps of descent on the mean halved squared error and the l2 term. */
static void descend(const samples *made, uint32_t chunk, uint32_t steps, double change[FEATURES])
{
    const dataset *own = &made->own[chunk];
    double y[FEATURES];
    for (size_t i = 0; i < FEATURES; i++)
        y[i] = start[i];
    for (uint32_t step = 0; step < steps; step++) {
        double gradient[FEATURES] = {0};
        for (size_t row = 0; row < own->rows; row++) {
            double apart = -own->label[row];
            for (size_t i = 0; i < FEATURES; i++)
                apart += y[i] * own->value[row * FEATURES + i];
            for (size_t i = 0; i < FEATURES; i++)
                gradient[i] += apart * own->value[row * FEATURES + i] / (double)own->rows;
        }
        for (size_t i = 0; i < FEATURES; i++)
            y[i] -= limited.inner.rate * (gradient[i] + 0.1 * y[i]);
    }
    for (size_t i = 0; i < FEATURES; i++)
        change[i] = start[i] - y[i];
}

/* FedNova's x - tau_eff sum_j p_j Delta_j / tau_j, of the first so many chunks: the others were
 * late. */
TEST(means_of_chunks_that_break_off_are_fednovas)
{
    const samples *made = *state;
    const uint32_t worker[CHUNKS] = {0, 0, 1}, steps[CHUNKS] = {3, 1, 3};
    for (uint32_t there = 1; there <= CHUNKS; there++) {
        double now = 100, wanted[FEATURES] = {0}, mean_steps = 0;
        OWNED(chunk_gradient) its = limited_chunks(made, &now);
        float sum[FEATURES + 2] = {0}, gradient[FEATURES];
        for (uint32_t chunk = 0; chunk < there; chunk++) {
            float part[FEATURES + 2];
            double change[FEATURES], share = (double)made->own[chunk].rows / ROWS;
            assert_within(part_of(its, worker[chunk], 6, chunk, part), steps[chunk], 1e-6);
            descend(made, chunk, steps[chunk], change);
            mean_steps += share * steps[chunk];
            for (size_t i = 0; i < FEATURES; i++)
                wanted[i] += share * change[i] / steps[chunk];
            for (size_t i = 0; i < FEATURES + 2; i++)
                sum[i] += part[i];
        }
        local_mean(&limited, made->model, start, sum, ROWS, gradient);
        assert_within(local_mean_steps(&limited, FEATURES, sum, ROWS), mean_steps, 1e-5);
        assert_within(local_used_steps(&limited, FEATURES, sum, ROWS), mean_steps, 1e-5);
        for (size_t i = 0; i < FEATURES; i++)
            assert_within(gradient[i], mean_steps * wanted[i], 1e-5);
    }
}

/* One chunk takes many steps and the others one each: no weights on the chunks' changes sum up to
 * more than the limit, whatever tau_eff is. */
TEST(late_chunks_are_not_stretched)
{
    const samples *made = *state;
    const local_settings settings = {.steps = 400, .inner = {OPTIMIZER_GD, 0.5, 0}, .seconds = 1};
    const double early = 400, share = 0.125, change[2] = {1, 0.25}; /* of the early one, the late */
    float sum[FEATURES + 2] = {0}, gradient[FEATURES];
    for (size_t i = 0; i < FEATURES; i++)
        sum[i] = (float)(ROWS * (share * change[0] / early + (1 - share) * change[1]));
    sum[FEATURES] = (float)(ROWS * (share * early + (1 - share)));
    sum[FEATURES + 1] = (float)(ROWS * (share / early + (1 - share)));
    const double used = local_used_steps(&settings, FEATURES, sum, ROWS);
    assert_true(local_mean_steps(&settings, FEATURES, sum, ROWS) > 50);
    assert_within(used * (share / early + (1 - share)), LOCAL_REACH, 1e-5);
    local_mean(&settings, made->model, start, sum, ROWS, gradient);
    for (size_t i = 0; i < FEATURES; i++)
        assert_true(gradient[i] > 0 && gradient[i] <= LOCAL_REACH * change[1] + 1e-3);
}

/* Its later ones take a step each; other workers have time of their own, and so has the next round.
 */
TEST(a_workers_time_begins_with_its_first_chunk_of_a_round)
{
    double now = 0;
    float part[FEATURES + 2];
    OWNED(chunk_gradient) its = limited_chunks(*state, &now);
    assert_within(part_of(its, 0, 6, 0, part), 3, 1e-6);
    assert_within(part_of(its, 0, 6, 1, part), 1, 1e-6);
    assert_within(part_of(its, 1, 6, 1, part), 3, 1e-6);
    assert_within(part_of(its, 0, 6, 2, part), 1, 1e-6);
    assert_within(part_of(its, 0, 7, 2, part), 3, 1e-6);
}

TEST_GROUP(set_up, tear_down)
