/* SPDX-License-Identifier: Apache-2.0 */
/* Passes in float32, for the models that are trained. */
#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "learn/network_work.h"

typedef float real;
#define blas_product cblas_sgemm
#define blas_vector cblas_sgemv

static void load(objective_workspace *work, const float *parameters)
{
    work->parameters = parameters;
}

/* Consecutive samples stand in the data as they are needed. */
static const real *dense_input(objective_workspace *work, const network_batch *batch)
{
    size_t features = work->model->settings.features;
    if (batch->rows == NULL)
        return batch->data->value + batch->first * features;
    real *to = work->gathered;
    for (size_t s = 0; s < batch->count; s++)
        memcpy(to + s * features, batch->data->value + batch->rows[s] * features,
               features * sizeof(*to));
    return to;
}

#include "learn/network_passes.h"

const network_passes network_single = {
    .real_size = sizeof(real),
    .copies_parameters = false,
    .load = load,
    .forward = forward,
    .backward = backward,
};
