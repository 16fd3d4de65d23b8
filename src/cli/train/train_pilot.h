/* SPDX-License-Identifier: Apache-2.0 */
/* Short trainings that tell what a form of numbers or local steps cost in loss. */
#ifndef CLI_TRAIN_PILOT_H
#define CLI_TRAIN_PILOT_H

#include <stdbool.h>
#include <stdint.h>

/* In place of a job file: the synthetic data set of tarry train, and a perceptron. */
#define PILOT_SYNTHETIC "synthetic"

/* What one of them changes of the job; texts are those of the options of tarry train. */
typedef struct pilot_change {
    const char *compress, *down;
    const char *local_steps; /* "none": a sum for each step */
    uint64_t rounds;         /* 0: the job's */
    uint64_t seed_more;      /* so much more than the job's seed */
} pilot_change;

typedef struct pilot_losses {
    uint64_t rounds; /* that were asked for */
    bool diverged;   /* they ended with a loss that is not finite */
    double *after;   /* the training data's loss after 0..rounds rounds; NaN after diverging */
} pilot_losses;

/*
 * Trains as `tarry train --config JOB` would, over threads, with exact sums at the server that
 * repeat to the bit, without delays, and writes nothing but complaints. The caller frees the losses
 * with pilot_losses_free. Gives back EXIT_DONE, or another exit status after a complaint.
 */
int train_pilot(const char *job, const pilot_change *change, pilot_losses *out);
void pilot_losses_free(pilot_losses *losses);

#endif
