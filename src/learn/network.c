/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/network.h"

#include <assert.h>
#include <cblas.h>

#include "base/memory.h"

enum {
    MOST_SAMPLES = 64,      /* enough for dgemm's speed */
    INPUT_NUMBERS = 1 << 20 /* dense inputs of a pass, unless one sample alone has more */
};

struct objective_workspace {
    tarry_allocator allocator;
    const objective *model;
    size_t capacity;                           /* samples */
    double *parameters;                        /* dimension */
    double *input;                             /* capacity x features */
    double *outputs[OBJECTIVE_MAX_HIDDEN + 1]; /* layer k: capacity x outputs, after the ReLU;
                                                  going back, the derivatives by them */
    double *derivatives;                       /* capacity x the widest hidden layer */
};

int objective_workspace_create(const objective *model, const tarry_allocator *allocator,
                               objective_workspace **out)
{
    tarry_allocator memory = memory_allocator(allocator);
    objective_workspace *work = memory_allocate(&memory, 1, sizeof(*work));
    if (work == NULL)
        return TARRY_ERROR_NO_MEMORY;
    work->allocator = memory;
    work->model = model;
    size_t fitting = INPUT_NUMBERS / model->settings.features;
    work->capacity = fitting == 0 ? 1 : fitting < MOST_SAMPLES ? fitting : MOST_SAMPLES;
    work->parameters = memory_allocate(&memory, model->dimension, sizeof(double));
    work->input =
        memory_allocate(&memory, work->capacity * model->settings.features, sizeof(double));
    bool complete = work->parameters != NULL && work->input != NULL;
    uint32_t widest = 0;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        uint32_t width = model->layers[k].outputs;
        work->outputs[k] = memory_allocate(&memory, work->capacity * width, sizeof(double));
        complete = complete && work->outputs[k] != NULL;
        if (k + 1 < model->layer_count && width > widest)
            widest = width;
    }
    work->derivatives = memory_allocate(&memory, work->capacity * widest, sizeof(double));
    if (!complete || work->derivatives == NULL) {
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
    memory_release(&memory, work->parameters);
    memory_release(&memory, work->input);
    for (uint32_t k = 0; k <= OBJECTIVE_MAX_HIDDEN; k++)
        memory_release(&memory, work->outputs[k]);
    memory_release(&memory, work->derivatives);
    memory_release(&memory, work);
}

size_t network_capacity(const objective_workspace *work)
{
    return work->capacity;
}

size_t network_row(const network_batch *batch, size_t sample)
{
    return batch->rows != NULL ? batch->rows[sample] : batch->first + sample;
}

void network_load(objective_workspace *work, const float *parameters)
{
    for (size_t i = 0; i < work->model->dimension; i++)
        work->parameters[i] = parameters[i];
}

/* y (samples x outputs) += x (samples x inputs) times the transpose of w (outputs x inputs). One
 * output is a matrix times a vector, which dgemm is slow at. */
static void add_product(const network_layer *layer, size_t samples, const double *x,
                        const double *w, double *y)
{
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    if (outputs == 1)
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (blasint)samples, inputs, 1, x, inputs, w, 1, 1, y,
                    1);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)samples, outputs, inputs, 1,
                    x, inputs, w, inputs, 1, y, outputs);
}

/* g (outputs x inputs) += the transpose of dy (samples x outputs) times x (samples x inputs). */
static void add_weight_gradient(const network_layer *layer, size_t samples, const double *x,
                                const double *dy, double *g)
{
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    if (outputs == 1)
        cblas_dgemv(CblasRowMajor, CblasTrans, (blasint)samples, inputs, 1, x, inputs, dy, 1, 1, g,
                    1);
    else
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, (blasint)samples, 1,
                    dy, outputs, x, inputs, 1, g, inputs);
}

static void load_dense(objective_workspace *work, const network_batch *batch)
{
    size_t features = work->model->settings.features;
    for (size_t s = 0; s < batch->count; s++) {
        const float *from = batch->data->value + network_row(batch, s) * features;
        double *to = work->input + s * features;
        for (size_t i = 0; i < features; i++)
            to[i] = from[i];
    }
}

static void add_product_sparse(const network_layer *layer, const network_batch *batch,
                               const double *w, double *y)
{
    const dataset *data = batch->data;
    for (size_t s = 0; s < batch->count; s++) {
        size_t row = network_row(batch, s);
        size_t start = data->row_start[row], end = data->row_start[row + 1];
        for (uint32_t k = 0; k < layer->outputs; k++) {
            const double *weights = w + (size_t)k * layer->inputs;
            double sum = 0;
            for (size_t e = start; e < end; e++)
                sum += weights[data->column[e]] * data->value[e];
            y[s * layer->outputs + k] += sum;
        }
    }
}

static void add_weight_gradient_sparse(const network_layer *layer, const network_batch *batch,
                                       const double *dy, double *g)
{
    const dataset *data = batch->data;
    for (size_t s = 0; s < batch->count; s++) {
        size_t row = network_row(batch, s);
        size_t start = data->row_start[row], end = data->row_start[row + 1];
        for (uint32_t k = 0; k < layer->outputs; k++) {
            double *weights = g + (size_t)k * layer->inputs;
            double derivative = dy[s * layer->outputs + k];
            for (size_t e = start; e < end; e++)
                weights[data->column[e]] += derivative * data->value[e];
        }
    }
}

static void start_with_biases(const objective_workspace *work, const network_layer *layer,
                              size_t samples, double *y)
{
    const double *biases = work->parameters + layer->biases;
    for (size_t s = 0; s < samples; s++)
        for (uint32_t k = 0; k < layer->outputs; k++)
            y[s * layer->outputs + k] = layer->biased ? biases[k] : 0;
}

double *network_forward(objective_workspace *work, const network_batch *batch)
{
    const objective *model = work->model;
    assert(batch->count <= work->capacity);
    if (!batch->data->sparse)
        load_dense(work, batch);
    const double *x = work->input;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        const double *w = work->parameters + layer->weights;
        double *y = work->outputs[k];
        start_with_biases(work, layer, batch->count, y);
        if (k == 0 && batch->data->sparse)
            add_product_sparse(layer, batch, w, y);
        else
            add_product(layer, batch->count, x, w, y);
        if (k + 1 < model->layer_count)
            for (size_t i = 0; i < batch->count * layer->outputs; i++)
                y[i] = y[i] > 0 ? y[i] : 0;
        x = y;
    }
    return work->outputs[model->layer_count - 1];
}

/* Turns the outputs of layer k - 1 into the derivatives by them, through W of layer k and the
 * ReLU, which lets through where its output is positive. */
static void derive_inputs(objective_workspace *work, uint32_t k, size_t samples)
{
    const network_layer *layer = &work->model->layers[k];
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    double *x = work->outputs[k - 1];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)samples, inputs, outputs, 1,
                work->outputs[k], outputs, work->parameters + layer->weights, inputs, 0,
                work->derivatives, inputs);
    for (size_t i = 0; i < samples * layer->inputs; i++)
        x[i] = x[i] > 0 ? work->derivatives[i] : 0;
}

void network_backward(objective_workspace *work, const network_batch *batch, double *gradient)
{
    for (uint32_t k = work->model->layer_count; k-- > 0;) {
        const network_layer *layer = &work->model->layers[k];
        const double *dy = work->outputs[k];
        double *g = gradient + layer->weights;
        if (k > 0)
            add_weight_gradient(layer, batch->count, work->outputs[k - 1], dy, g);
        else if (batch->data->sparse)
            add_weight_gradient_sparse(layer, batch, dy, g);
        else
            add_weight_gradient(layer, batch->count, work->input, dy, g);
        if (layer->biased)
            for (size_t s = 0; s < batch->count; s++)
                for (uint32_t o = 0; o < layer->outputs; o++)
                    gradient[layer->biases + o] += dy[s * layer->outputs + o];
        if (k > 0)
            derive_inputs(work, k, batch->count);
    }
}
