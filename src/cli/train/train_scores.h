/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss and accuracy of the parameters that a round begins with, worked out while it runs. Where
 * workers compute all samples in this process, their passes tell of the training data; the rest has
 * a thread of its own, and what is late is waited for.
 */
#ifndef CLI_TRAIN_SCORES_H
#define CLI_TRAIN_SCORES_H

#include "cli/job/chunk_gradient.h"

typedef struct train_scores train_scores;

typedef struct train_scores_settings {
    const objective *model;
    const dataset *train; /* NULL: its scores are not worked out, and are NaN */
    const dataset *test;  /* NULL: none */
    /* What workers of this process compute all samples of a round with; NULL: they are elsewhere,
     * or draw samples. */
    chunk_gradient *gradients;
    const tarry_plan *plan; /* of `gradients` */
    objective_stop stop;    /* asked by any thread */
} train_scores_settings;

/* All is borrowed, and the model, the data and `gradients` must outlive it. Errors: NO_MEMORY. */
int train_scores_create(const train_scores_settings *settings, train_scores **out);
void train_scores_free(train_scores *state); /* NULL is allowed */

/* Between rounds: rounds go by another plan from now on; borrowed. Errors: NO_MEMORY. */
int train_scores_replan(train_scores *state, const tarry_plan *plan);

/* Before a round: begins with the scores of `parameters`, which are read until train_scores_end. */
void train_scores_begin(train_scores *state, const float *parameters);

/* In its place, where nobody wants them. */
void train_scores_drop(train_scores *state);

#define TRAIN_SCORES_NO_ROUND UINT64_MAX
/* After round `round` with these parameters, or TRAIN_SCORES_NO_ROUND if none ended. *test stays as
 * it is without test samples. False: `stop` ended it early, and neither is set. */
bool train_scores_end(train_scores *state, uint64_t round, objective_score *train,
                      objective_score *test);

#endif
