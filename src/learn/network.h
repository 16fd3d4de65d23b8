/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every model as layers: outputs = W inputs + b, with ReLU between a layer and the next. A linear
 * model is the network of one layer.
 */
#ifndef LEARN_NETWORK_H
#define LEARN_NETWORK_H

#include "learn/objective.h"

typedef struct network_layer {
    uint32_t inputs;
    uint32_t outputs;
    bool biased;
    size_t weights; /* where W, outputs x inputs row by row, starts in the parameters */
    size_t biases;  /* where b, of `outputs` numbers, starts */
} network_layer;

struct objective {
    tarry_allocator allocator;
    objective_settings settings;
    uint32_t layer_count;
    network_layer layers[OBJECTIVE_MAX_HIDDEN + 1];
    size_t dimension;
};

/* Samples of one pass: either rows[0..count-1] of the data or first..first + count - 1. */
typedef struct network_batch {
    const dataset *data;
    const size_t *rows; /* NULL: consecutive */
    size_t first;
    size_t count; /* at most network_capacity */
} network_batch;

size_t network_row(const network_batch *batch, size_t sample);

static inline uint32_t network_outputs(const objective *model)
{
    return model->layers[model->layer_count - 1].outputs;
}

/* Samples that one pass takes at most. */
size_t network_capacity(const objective_workspace *work);
objective_precision network_precision(const objective_workspace *work);
/* The parameters that the passes after this use; they have to stay until then. */
void network_load(objective_workspace *work, const float *parameters);
/* The last layer's outputs, count x outputs, in double in either precision; they are the
 * workspace's and may be written over with the loss's derivatives by them. */
double *network_forward(objective_workspace *work, const network_batch *batch);
/* Adds the gradient of the batch that was last passed forward, from the derivatives by the outputs:
 * that of each sample, if `most` is finite, shortened to that length where it is longer, and left
 * out where it is not finite. gradient: dimension numbers of the workspace's precision. */
void network_backward(objective_workspace *work, const network_batch *batch, double most,
                      void *gradient);

#endif
