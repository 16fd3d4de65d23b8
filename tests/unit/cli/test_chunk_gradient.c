/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/chunk_gradient.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "seed.h"

enum { ROWS = 31, FEATURES = 4, CHUNKS = 3 };

static const batch_settings batch = {.rows = ROWS, .chunks = CHUNKS, .batch = 12, .seed = 9};
static const local_settings local = {5, {OPTIMIZER_ADAM, 0.05, OPTIMIZER_USUAL_DECAY}};

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

static int compute(chunk_gradient *of, tarry_span span, float gradient[FEATURES])
{
    const float parameters[FEATURES] = {1, -2, 3, 0.5F};
    const tarry_task task = {
        .round = 6,
        .parameters = parameters,
        .spans = &span,
        .span_count = 1,
        .gradient = gradient,
    };
    return chunk_gradient_compute(of, &task);
}

/* A worker that has all samples and one that fetches those of its chunks take the same local steps,
 * whatever either computed before. */
static void copies_are_the_same_to_the_bit(void **state)
{
    samples *made = *state;
    chunk_gradient *whole, *fetching;
    assert_int_equal(chunk_gradient_create(made->model, &made->all, &batch, 1, &whole), TARRY_OK);
    assert_int_equal(chunk_gradient_create_fetching(made->model, fetch, made, &batch, 1, &fetching),
                     TARRY_OK);
    assert_int_equal(chunk_gradient_step_locally(whole, &local), TARRY_OK);
    assert_int_equal(chunk_gradient_step_locally(fetching, &local), TARRY_OK);
    float one[CHUNKS][FEATURES], other[CHUNKS][FEATURES];
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const uint32_t back = CHUNKS - 1 - i;
        const tarry_span up = {.origin = i, .count = 1, .of = 1};
        const tarry_span down = {.origin = back, .count = 1, .of = 1};
        assert_int_equal(compute(whole, up, one[i]), 0);
        assert_int_equal(compute(fetching, down, other[back]), 0);
    }
    assert_memory_equal(one, other, sizeof(one));
    assert_memory_not_equal(one[0], one[1], sizeof(one[0]));
    chunk_gradient_free(whole);
    chunk_gradient_free(fetching);
}

/* Which a server may name whose plan is not the tool's. */
static void a_share_of_a_chunk_takes_no_local_steps(void **state)
{
    samples *made = *state;
    const tarry_span half = {.origin = 1, .first = 1, .count = 1, .of = 2};
    float gradient[FEATURES];
    chunk_gradient *of;
    assert_int_equal(chunk_gradient_create(made->model, &made->all, &batch, 1, &of), TARRY_OK);
    assert_int_equal(compute(of, half, gradient), 0);
    assert_int_equal(chunk_gradient_step_locally(of, &local), TARRY_OK);
    assert_int_not_equal(compute(of, half, gradient), 0);
    chunk_gradient_free(of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_the_same_to_the_bit),
        cmocka_unit_test(a_share_of_a_chunk_takes_no_local_steps),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
