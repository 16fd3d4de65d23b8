/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/network.h"

#include "base/memory.h"
#include "learn/network_work.h"

enum {
    MOST_SAMPLES = 128,     /* enough for a product of matrices to be fast */
    INPUT_NUMBERS = 1 << 20 /* dense inputs of a pass, unless one sample alone has more */
};

int objective_workspace_create(const objective *model, objective_precision precision,
                               const tarry_allocator *allocator, objective_workspace **out)
{
    tarry_allocator memory = memory_allocator(allocator);
    objective_workspace *work = memory_allocate(&memory, 1, sizeof(*work));
    if (work == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const network_passes *passes =
        precision == OBJECTIVE_DOUBLE ? &network_double : &network_single;
    size_t size = passes->real_size;
    work->allocator = memory;
    work->model = model;
    work->passes = passes;
    size_t fitting = INPUT_NUMBERS / model->settings.features;
    work->capacity = fitting == 0 ? 1 : fitting < MOST_SAMPLES ? fitting : MOST_SAMPLES;
    work->scores =
        memory_allocate(&memory, work->capacity * network_outputs(model), sizeof(double));
    work->gathered = memory_allocate(&memory, work->capacity * model->settings.features, size);
    bool complete = work->scores != NULL && work->gathered != NULL;
    if (passes->copies_parameters) {
        work->copied = memory_allocate(&memory, model->dimension, size);
        complete = complete && work->copied != NULL;
    }
    for (uint32_t k = 0; k < model->layer_count; k++) {
        size_t numbers = work->capacity * model->layers[k].outputs;
        work->outputs[k] = memory_allocate(&memory, numbers, size);
        work->derivatives[k] = memory_allocate(&memory, numbers, size);
        complete = complete && work->outputs[k] != NULL && work->derivatives[k] != NULL;
    }
    if (!complete) {
        objective_workspace_free(work);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = work;
    return TARRY_OK;
}

void objective_workspace_free(objective_workspace *work)
{
    if (work == NULL)
        return;
    tarry_allocator memory = work->allocator;
    memory_release(&memory, work->scores);
    memory_release(&memory, work->copied);
    memory_release(&memory, work->gathered);
    for (uint32_t k = 0; k <= OBJECTIVE_MAX_HIDDEN; k++) {
        memory_release(&memory, work->derivatives[k]);
        memory_release(&memory, work->outputs[k]);
    }
    memory_release(&memory, work);
}

size_t network_capacity(const objective_workspace *work)
{
    return work->capacity;
}

objective_precision network_precision(const objective_workspace *work)
{
    return work->passes == &network_double ? OBJECTIVE_DOUBLE : OBJECTIVE_SINGLE;
}

size_t network_row(const network_batch *batch, size_t sample)
{
    return batch->rows != NULL ? batch->rows[sample] : batch->first + sample;
}

void network_load(objective_workspace *work, const float *parameters)
{
    work->passes->load(work, parameters);
}

double *network_forward(objective_workspace *work, const network_batch *batch)
{
    return work->passes->forward(work, batch);
}

void network_backward(objective_workspace *work, const network_batch *batch, double most,
                      void *gradient)
{
    work->passes->backward(work, batch, most, gradient);
}
