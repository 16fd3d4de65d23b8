/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/verification.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

struct verification {
    chunk_gradient *gradients;
    uint32_t chunks;
    size_t dimension;
    objective_workspace *work; /* in double */
    local_steps *local;        /* the same; NULL: there are none */
    float *gradient;           /* of one chunk */
    double *sum;               /* of the chunks' float32 gradients */
    double *truth;             /* of those in double */
};

int verification_create(const objective *model, chunk_gradient *gradients,
                        const local_settings *local, uint32_t chunks, verification **out)
{
    verification *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->gradients = gradients;
    state->chunks = chunks;
    state->dimension = objective_dimension(model);
    state->gradient = memory_allocate(NULL, state->dimension, sizeof(*state->gradient));
    state->sum = memory_allocate(NULL, state->dimension, sizeof(*state->sum));
    state->truth = memory_allocate(NULL, state->dimension, sizeof(*state->truth));
    if (state->gradient == NULL || state->sum == NULL || state->truth == NULL ||
        objective_workspace_create(model, OBJECTIVE_DOUBLE, NULL, &state->work) != TARRY_OK ||
        (local->steps > 0 &&
         local_steps_create(model, local, OBJECTIVE_DOUBLE, NULL, &state->local) != TARRY_OK)) {
        verification_free(state);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = state;
    return TARRY_OK;
}

void verification_free(verification *state)
{
    if (state == NULL)
        return;
    local_steps_free(state->local);
    objective_workspace_free(state->work);
    memory_release(NULL, state->gradient);
    memory_release(NULL, state->sum);
    memory_release(NULL, state->truth);
    memory_release(NULL, state);
}

/* max|sum - truth| / max|truth|; 0 where all are zero. */
static double rounding(const verification *state)
{
    double apart = 0, largest = 0;
    for (size_t i = 0; i < state->dimension; i++) {
        apart = fmax(apart, fabs(state->sum[i] - state->truth[i]));
        largest = fmax(largest, fabs(state->truth[i]));
    }
    return apart == 0 ? 0 : apart / largest;
}

void verification_check(verification *state, uint64_t round, const float *parameters,
                        const float *estimate, verified_round *out)
{
    size_t dimension = state->dimension;
    memset(state->sum, 0, dimension * sizeof(*state->sum));
    memset(state->truth, 0, dimension * sizeof(*state->truth));
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++) {
        const tarry_span whole = {.origin = chunk, .count = 1, .of = 1};
        const tarry_task task = {
            .round = round,
            .parameters = parameters,
            .spans = &whole,
            .span_count = 1,
            .gradient = state->gradient,
        };
        int failed = chunk_gradient_compute(state->gradients, &task);
        assert(failed == 0);
        (void)failed;
        for (size_t i = 0; i < dimension; i++)
            state->sum[i] += state->gradient[i];
        chunk_gradient_add_double(state->gradients, state->work, state->local, round, parameters,
                                  chunk, state->truth);
    }
    verify_estimate(state->sum, estimate, dimension, &out->error, &out->squared_error);
    out->model_rounding = rounding(state);
}
