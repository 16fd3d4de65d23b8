/* SPDX-License-Identifier: Apache-2.0 */
/* Passes in double, which those in float32 are judged by. */
#include <assert.h>
#include <cblas.h>
#include <math.h>

#include "learn/network_work.h"

typedef double real;
#define blas_product cblas_dgemm
#define blas_vector cblas_dgemv

static void load(objective_workspace *work, const float *parameters)
{
    real *to = work->copied;
    for (size_t i = 0; i < work->model->dimension; i++)
        to[i] = parameters[i];
    work->parameters = to;
}

static const real *dense_input(objective_workspace *work, const network_batch *batch)
{
    size_t features = work->model->settings.features;
    real *to = work->gathered;
    for (size_t s = 0; s < batch->count; s++) {
        const float *from = batch->data->value + network_row(batch, s) * features;
        for (size_t i = 0; i < features; i++)
            to[s * features + i] = from[i];
    }
    return to;
}

#include "learn/network_passes.h"

const network_passes network_double = {
    .real_size = sizeof(real),
    .copies_parameters = true,
    .load = load,
    .forward = forward,
    .backward = backward,
};
