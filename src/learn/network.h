/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every model as layers: outputs = W inputs + b, with ReLU between a layer and the next. A linear
 * model is the network of one layer.
 */
#ifndef LEARN_NETWORK_H
#define LEARN_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/compress.h>

#include "learn/dataset.h"

/*
 * What is minimised: (1 / n) sum over the n samples of loss(sample; w) + (l2 / 2) |w|^2. Gradients
 * of the sum over samples are worked out from float32 parameters, in float32 or, to judge those, in
 * double; losses are summed in double. The l2 term is the optimizer's caller's business (see
 * objective_regularise), so that chunk sums are plain sums over samples.
 *
 * Parameters and gradients are laid out layer by layer: the layer's weights, outputs x inputs row
 * by row, then its biases. A linear model is one layer of 1 output (least squares, logistic) or of
 * one per class (softmax), with biases if it has an intercept.
 */

#define OBJECTIVE_MAX_HIDDEN 8

typedef enum model_kind {
    MODEL_LEAST_SQUARES, /* (1/2) (x.w - y)^2 */
    MODEL_LOGISTIC,      /* log(1 + exp(-y x.w)), y = -1, +1 */
    MODEL_SOFTMAX,       /* cross entropy of a linear map to the classes */
    MODEL_PERCEPTRON,    /* the same of hidden ReLU layers with biases */
} model_kind;

typedef struct objective_settings {
    model_kind model;
    uint32_t features;
    uint32_t classes;                      /* softmax and perceptron: >= 2 */
    uint32_t hidden[OBJECTIVE_MAX_HIDDEN]; /* perceptron: widths of the hidden layers */
    uint32_t hidden_layers;                /* perceptron: 1..OBJECTIVE_MAX_HIDDEN */
    bool intercept; /* linear models: one bias per output, after the weights */
    double l2;      /* >= 0; biases are regularised too */
} objective_settings;

typedef struct objective objective;

label_kind objective_labels(model_kind model);

/* The caller owns *out; it is immutable. Errors: ARGUMENT, NO_MEMORY. */
int objective_create(const objective_settings *settings, const tarry_allocator *allocator,
                     objective **out, tarry_diagnostic *diagnostic);
void objective_free(objective *model);

size_t objective_dimension(const objective *model); /* numbers in parameters and in a gradient */
/* What parameters are, in their order: weights are outputs x inputs, and biases one row. Gives back
 * how many, at most OBJECTIVE_MATRICES. */
#define OBJECTIVE_MATRICES (2 * (OBJECTIVE_MAX_HIDDEN + 1))
uint32_t objective_matrices(const objective *model, tarry_matrix matrices[OBJECTIVE_MATRICES]);
/* Zeros for linear models; He-normal weights and zero biases,
 * drawn from the seed, for the perceptron. */
void objective_initial(const objective *model, uint64_t seed, float *parameters);

typedef enum objective_precision {
    OBJECTIVE_SINGLE, /* what models are trained in */
    OBJECTIVE_DOUBLE, /* the oracle */
} objective_precision;

/* Room that one thread needs to work out gradients and losses in a precision; takes a batch of
 * samples at a time. */
typedef struct objective_workspace objective_workspace;
int objective_workspace_create(const objective *model, objective_precision precision,
                               const tarry_allocator *allocator, objective_workspace **out);
void objective_workspace_free(objective_workspace *work);

/* What samples' losses come to. */
typedef struct objective_tally {
    double loss;  /* the sum of theirs, without the l2 term */
    size_t right; /* how many are classified right; 0 for least squares */
} objective_tally;

/*
 * gradient[0..dimension-1] += sum of the loss's gradients over `count` samples: the rows
 * rows[0..count-1] or, where rows is NULL, first .. first + count - 1. The same samples are added
 * to the tally, for which the passes forward do; NULL: none is kept. The order of summation
 * depends on the arguments alone. The workspace is one of the gradient's precision.
 */
void objective_add_gradient(const objective *model, objective_workspace *work, const dataset *data,
                            const float *parameters, const size_t *rows, size_t first, size_t count,
                            float *gradient, objective_tally *tally);
void objective_add_gradient_double(const objective *model, objective_workspace *work,
                                   const dataset *data, const float *parameters, const size_t *rows,
                                   size_t first, size_t count, double *gradient);

/* gradient[0..dimension-1] += the gradients of the rows rows[0..count-1], each shortened to the
 * length `most` (> 0, finite) where it is longer, and left out where it is not finite. The length
 * is worked out from the layers, without a copy per sample. The workspace is one of double. */
void objective_add_clipped(const objective *model, objective_workspace *work, const dataset *data,
                           const float *parameters, const size_t *rows, size_t count, double most,
                           double *gradient);

typedef struct objective_score {
    double loss;     /* the whole objective, l2 term included */
    double accuracy; /* share of samples classified right; NaN for least squares */
} objective_score;

/* A question that is asked every few samples: must the work end before it is complete? */
typedef struct objective_stop {
    bool (*asked)(void *user);
    void *user;
} objective_stop;

/* As the tally of objective_add_gradient, of samples `first` .. first + count - 1: the same bits.
 * False: `stop`, which may be NULL, ended it early, and the tally is of no use. */
bool objective_add_tally(const objective *model, objective_workspace *work, const dataset *data,
                         const float *parameters, size_t first, size_t count,
                         const objective_stop *stop, objective_tally *tally);
/* The score of `parameters` whose `samples` samples, all there are, gave the tally. */
objective_score objective_score_of(const objective *model, const float *parameters,
                                   const objective_tally *tally, size_t samples);

/* gradient = sum / samples + l2 * parameters:
 * from a sum over samples to the objective's gradient. */
void objective_regularise(const objective *model, const float *parameters, const float *sum,
                          double samples, float *gradient);

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
    size_t count; /* at most the capacity of a pass */
} network_batch;

size_t network_row(const network_batch *batch, size_t sample);

static inline uint32_t network_outputs(const objective *model)
{
    return model->layers[model->layer_count - 1].outputs;
}

#endif
