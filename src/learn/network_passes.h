/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes through a network, forward and back, for a file that has defined one precision:
 *
 *   real                          float or double
 *   blas_product, blas_vector     cblas_?gemm and cblas_?gemv
 *   dense_input(work, batch)      the batch's dense samples, count x features
 */
#ifndef LEARN_NETWORK_PASSES_H
#define LEARN_NETWORK_PASSES_H

#include "learn/network_work.h"

/* y (samples x outputs) += x (samples x inputs) times the transpose of w (outputs x inputs). One
 * output is a matrix times a vector, which a product of matrices is slow at. */
static void add_product(const network_layer *layer, size_t samples, const real *x, const real *w,
                        real *y)
{
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    if (outputs == 1)
        blas_vector(CblasRowMajor, CblasNoTrans, (blasint)samples, inputs, 1, x, inputs, w, 1, 1, y,
                    1);
    else
        blas_product(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)samples, outputs, inputs, 1,
                     x, inputs, w, inputs, 1, y, outputs);
}

/* g (outputs x inputs) += the transpose of dy (samples x outputs) times x (samples x inputs). */
static void add_weight_gradient(const network_layer *layer, size_t samples, const real *x,
                                const real *dy, real *g)
{
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    if (outputs == 1)
        blas_vector(CblasRowMajor, CblasTrans, (blasint)samples, inputs, 1, x, inputs, dy, 1, 1, g,
                    1);
    else
        blas_product(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, (blasint)samples, 1,
                     dy, outputs, x, inputs, 1, g, inputs);
}

static void add_product_sparse(const network_layer *layer, const network_batch *batch,
                               const real *w, real *y)
{
    const dataset *data = batch->data;
    for (size_t s = 0; s < batch->count; s++) {
        size_t row = network_row(batch, s);
        size_t start = data->row_start[row], end = data->row_start[row + 1];
        for (uint32_t k = 0; k < layer->outputs; k++) {
            const real *weights = w + (size_t)k * layer->inputs;
            double sum = 0;
            for (size_t e = start; e < end; e++)
                sum += (double)weights[data->column[e]] * data->value[e];
            y[s * layer->outputs + k] += (real)sum;
        }
    }
}

static void add_weight_gradient_sparse(const network_layer *layer, const network_batch *batch,
                                       const real *dy, real *g)
{
    const dataset *data = batch->data;
    for (size_t s = 0; s < batch->count; s++) {
        size_t row = network_row(batch, s);
        size_t start = data->row_start[row], end = data->row_start[row + 1];
        for (uint32_t k = 0; k < layer->outputs; k++) {
            real *weights = g + (size_t)k * layer->inputs;
            real derivative = dy[s * layer->outputs + k];
            for (size_t e = start; e < end; e++)
                weights[data->column[e]] += derivative * data->value[e];
        }
    }
}

static void start_with_biases(const real *biases, const network_layer *layer, size_t samples,
                              real *y)
{
    for (size_t s = 0; s < samples; s++)
        for (uint32_t k = 0; k < layer->outputs; k++)
            y[s * layer->outputs + k] = layer->biased ? biases[k] : 0;
}

static double *forward(objective_workspace *work, const network_batch *batch)
{
    const objective *model = work->model;
    const real *parameters = work->parameters;
    assert(batch->count <= work->capacity);
    const real *x = work->input = batch->data->sparse ? NULL : dense_input(work, batch);
    real *y = NULL;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        const real *w = parameters + layer->weights;
        y = work->outputs[k];
        start_with_biases(parameters + layer->biases, layer, batch->count, y);
        if (k == 0 && batch->data->sparse)
            add_product_sparse(layer, batch, w, y);
        else
            add_product(layer, batch->count, x, w, y);
        if (k + 1 < model->layer_count)
            for (size_t i = 0; i < batch->count * layer->outputs; i++)
                y[i] = y[i] > 0 ? y[i] : 0;
        x = y;
    }
    for (size_t i = 0; i < batch->count * network_outputs(model); i++)
        work->scores[i] = y[i];
    return work->scores;
}

/* The derivatives by the outputs of layer k - 1 from those of layer k, through its W and the ReLU,
 * which lets through where its output is positive. */
static void derive_inputs(objective_workspace *work, uint32_t k, size_t samples)
{
    const network_layer *layer = &work->model->layers[k];
    blasint inputs = (blasint)layer->inputs, outputs = (blasint)layer->outputs;
    const real *parameters = work->parameters, *x = work->outputs[k - 1];
    real *derivatives = work->derivatives[k - 1];
    blas_product(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)samples, inputs, outputs, 1,
                 work->derivatives[k], outputs, parameters + layer->weights, inputs, 0, derivatives,
                 inputs);
    for (size_t i = 0; i < samples * layer->inputs; i++)
        derivatives[i] = x[i] > 0 ? derivatives[i] : 0;
}

static double square_of(const real *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)numbers[i] * (double)numbers[i];
    return sum;
}

/* Of what goes into layer k for a sample of the batch. */
static double input_square(const objective_workspace *work, const network_batch *batch, uint32_t k,
                           size_t sample)
{
    const dataset *data = batch->data;
    const size_t inputs = work->model->layers[k].inputs;
    const real *x = k > 0 ? work->outputs[k - 1] : work->input;
    double sum = 0;
    if (x != NULL)
        return square_of(x + sample * inputs, inputs);
    size_t row = network_row(batch, sample);
    for (size_t e = data->row_start[row]; e < data->row_start[row + 1]; e++)
        sum += (double)data->value[e] * (double)data->value[e];
    return sum;
}

/* A layer's gradient of one sample is the product of the derivatives by its outputs and its inputs,
 * and so is its norm; that of the biases is the first. */
static double sample_square(const objective_workspace *work, const network_batch *batch,
                            size_t sample)
{
    const objective *model = work->model;
    double sum = 0;
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        const real *dy = work->derivatives[k];
        sum += square_of(dy + sample * layer->outputs, layer->outputs) *
               (input_square(work, batch, k, sample) + (layer->biased ? 1 : 0));
    }
    return sum;
}

/* Scales the derivatives of each sample such that its gradient, of which they are a factor in every
 * layer, is no longer than `most`. One that is not finite becomes zero. */
static void clip_samples(objective_workspace *work, const network_batch *batch, double most)
{
    const objective *model = work->model;
    for (size_t s = 0; s < batch->count; s++) {
        const double norm = sqrt(sample_square(work, batch, s));
        if (norm <= most)
            continue;
        const bool finite = isfinite(norm) != 0;
        for (uint32_t k = 0; k < model->layer_count; k++) {
            const size_t outputs = model->layers[k].outputs;
            real *dy = work->derivatives[k], *y = work->outputs[k];
            for (size_t i = s * outputs; i < (s + 1) * outputs; i++) {
                dy[i] = finite ? (real)((double)dy[i] * (most / norm)) : 0;
                y[i] = finite ? y[i] : 0; /* an infinite input, times zero, would be none */
            }
        }
    }
}

static void add_bias_gradient(const network_layer *layer, size_t samples, const real *dy, real *g)
{
    for (size_t s = 0; layer->biased && s < samples; s++)
        for (uint32_t o = 0; o < layer->outputs; o++)
            g[o] += dy[s * layer->outputs + o];
}

static void backward(objective_workspace *work, const network_batch *batch, double most, void *sum)
{
    const objective *model = work->model;
    real *gradient = sum, *last = work->derivatives[model->layer_count - 1];
    for (size_t i = 0; i < batch->count * network_outputs(model); i++)
        last[i] = (real)work->scores[i];
    for (uint32_t k = model->layer_count; k-- > 1;)
        derive_inputs(work, k, batch->count);
    if (isfinite(most))
        clip_samples(work, batch, most);
    for (uint32_t k = 0; k < model->layer_count; k++) {
        const network_layer *layer = &model->layers[k];
        const real *dy = work->derivatives[k];
        real *g = gradient + layer->weights;
        if (k > 0)
            add_weight_gradient(layer, batch->count, work->outputs[k - 1], dy, g);
        else if (batch->data->sparse)
            add_weight_gradient_sparse(layer, batch, dy, g);
        else
            add_weight_gradient(layer, batch->count, work->input, dy, g);
        add_bias_gradient(layer, batch->count, dy, gradient + layer->biases);
    }
}

#endif
