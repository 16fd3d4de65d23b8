/* SPDX-License-Identifier: Apache-2.0 */
/* What passes in either precision work in; see network_passes.h. */
#ifndef LEARN_NETWORK_WORK_H
#define LEARN_NETWORK_WORK_H

#include "learn/network.h"

/* Passes in one precision. Vectors of `real` are float or double. */
typedef struct network_passes {
    size_t real_size;       /* bytes of a number */
    bool copies_parameters; /* the workspace has room for a copy of the parameters */
    /* The parameters that the passes after this use; borrowed until then if they are not copied. */
    void (*load)(objective_workspace *work, const float *parameters);
    /* The last layer's outputs, count x outputs, in double in either precision; they are the
     * workspace's and may be written over with the loss's derivatives by them. */
    double *(*forward)(objective_workspace *work, const network_batch *batch);
    /* Adds the gradient of the batch that was last passed forward, from the derivatives by the
     * outputs: that of each sample, if `most` is finite, shortened to that length if it is longer,
     * and left out if it is not finite. gradient: dimension numbers of the precision. */
    void (*backward)(objective_workspace *work, const network_batch *batch, double most,
                     void *gradient);
} network_passes;

extern const network_passes network_single, network_double;

struct objective_workspace {
    tarry_allocator allocator;
    const objective *model;
    const network_passes *passes;
    size_t capacity; /* samples that one pass takes at most */
    double *scores;  /* capacity x outputs of the last layer */
    /* Of real numbers: */
    void *copied;                                /* dimension, or NULL */
    void *gathered;                              /* capacity x features */
    void *outputs[OBJECTIVE_MAX_HIDDEN + 1];     /* layer k: capacity x outputs, after the ReLU */
    void *derivatives[OBJECTIVE_MAX_HIDDEN + 1]; /* going back, by these */
    const void *parameters;                      /* of the passes: `copied`, or the caller's */
    const void *input; /* of the last pass: `gathered`, or the data's own; NULL: sparse */
};

#endif
