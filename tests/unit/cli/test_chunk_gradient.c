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

TEST_GROUP(set_up, tear_down)
