/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/local_steps.h"

#include <assert.h>
#include <string.h>
#include <tarry/error.h>

#include "base/memory.h"

struct local_steps {
    tarry_allocator allocator;
    const objective *model;
    size_t dimension;
    const float *from; /* x */
    float *change;     /* y - x */
    float *at;         /* y */
    float *gradient;
    double *exact; /* the sum of gradients in double; NULL where they are in single */
    optimizer *inner;
};

double local_samples(const local_settings *settings, const batch_settings *batch)
{
    return settings->steps > 0 ? (double)batch->rows : (double)batch_samples(batch);
}

void local_mean(const local_settings *settings, const objective *model, const float *parameters,
                const float *sum, double samples, float *gradient)
{
    if (settings->steps == 0) {
        objective_regularise(model, parameters, sum, samples, gradient);
        return;
    }
    const size_t dimension = objective_dimension(model);
    const double steps = settings->seconds > 0 ? local_used_steps(settings, dimension, sum, samples)
                                               : 1; /* the parts are not over their steps */
    for (size_t i = 0; i < dimension; i++)
        gradient[i] = (float)(steps * (sum[i] / samples));
}

double local_mean_steps(const local_settings *settings, size_t dimension, const float *sum,
                        double samples)
{
    return settings->seconds > 0 ? sum[dimension] / samples : settings->steps;
}

double local_used_steps(const local_settings *settings, size_t dimension, const float *sum,
                        double samples)
{
    const double mean = local_mean_steps(settings, dimension, sum, samples);
    if (settings->seconds <= 0 || !(sum[dimension + 1] > 0))
        return mean;
    const double most = LOCAL_REACH * samples / sum[dimension + 1];
    return most < mean ? most : mean;
}

int local_steps_create(const objective *model, const local_settings *settings,
                       objective_precision precision, const tarry_allocator *allocator,
                       local_steps **out)
{
    tarry_allocator memory = memory_allocator(allocator);
    local_steps *own = memory_allocate(&memory, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->allocator = memory;
    own->model = model;
    own->dimension = objective_dimension(model);
    own->change = vector_allocate(&memory, own->dimension);
    own->at = vector_allocate(&memory, own->dimension);
    own->gradient = vector_allocate(&memory, own->dimension);
    bool failed = own->change == NULL || own->at == NULL || own->gradient == NULL;
    if (precision == OBJECTIVE_DOUBLE && !failed) {
        own->exact = memory_allocate(&memory, own->dimension, sizeof(*own->exact));
        failed = own->exact == NULL;
    }
    if (failed || optimizer_create(&settings->inner, own->dimension, &memory, &own->inner) != 0) {
        local_steps_free(own);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = own;
    return TARRY_OK;
}

void local_steps_free(local_steps *own)
{
    if (own == NULL)
        return;
    tarry_allocator memory = own->allocator;
    optimizer_free(own->inner);
    memory_release(&memory, own->exact);
    vector_release(&memory, own->gradient);
    vector_release(&memory, own->at);
    vector_release(&memory, own->change);
    memory_release(&memory, own);
}

uint64_t local_steps_bytes(const local_settings *settings, size_t dimension)
{
    enum { OWN = 3 };
    return (uint64_t)(OWN + optimizer_vectors(settings->inner.kind)) * dimension * sizeof(float);
}

void local_steps_begin(local_steps *own, const float *parameters)
{
    own->from = parameters;
    memcpy(own->at, parameters, own->dimension * sizeof(*own->at));
    memset(own->change, 0, own->dimension * sizeof(*own->change));
    optimizer_reset(own->inner);
}

static void add_exact(local_steps *own, objective_workspace *work, const dataset *data,
                      const size_t *rows, size_t first, size_t count)
{
    memset(own->exact, 0, own->dimension * sizeof(*own->exact));
    objective_add_gradient_double(own->model, work, data, own->at, rows, first, count, own->exact);
    for (size_t i = 0; i < own->dimension; i++)
        own->gradient[i] = (float)own->exact[i];
}

void local_steps_take(local_steps *own, objective_workspace *work, const dataset *data,
                      const size_t *rows, size_t first, size_t count, objective_tally *tally)
{
    assert(count >= 1 && (own->exact == NULL || tally == NULL));
    if (own->exact != NULL) {
        add_exact(own, work, data, rows, first, count);
    } else {
        memset(own->gradient, 0, own->dimension * sizeof(*own->gradient));
        objective_add_gradient(own->model, work, data, own->at, rows, first, count, own->gradient,
                               tally);
    }
    objective_regularise(own->model, own->at, own->gradient, (double)count, own->gradient);
    optimizer_step(own->inner, own->gradient, own->change);
    for (size_t i = 0; i < own->dimension; i++)
        own->at[i] = own->from[i] + own->change[i];
}

const float *local_steps_change(const local_steps *own)
{
    return own->change;
}
