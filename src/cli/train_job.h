/* SPDX-License-Identifier: Apache-2.0 */
/* A training run: everything it needs, and its rounds. */
#ifndef CLI_TRAIN_JOB_H
#define CLI_TRAIN_JOB_H

#include "cli/history.h"
#include "cli/train_options.h"
#include "sim/chunk_cost.h"

typedef struct train_job train_job;

typedef struct train_inputs {
    const train_options *options;
    const tarry_plan *plan;
    const tarry_straggler *straggler;
    const chunk_cost *costs; /* of whole chunks, given to the server; NULL: none are */
    const dataset *train;
    const dataset *test; /* NULL if there is none */
} train_inputs;

/*
 * Starts the workers; from here on the first Ctrl-C is caught. The inputs are borrowed and must
 * outlive the job. Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_job_create(const train_inputs *inputs, train_job **out);
void train_job_free(train_job *job); /* NULL is allowed */

/*
 * Runs the rounds and writes them into past, also where something ends them early. Gives back
 * EXIT_DONE, or EXIT_FAILED after a complaint.
 */
int train_job_run(train_job *job, history *past);

/* Which gradients its workers keep. */
tarry_keep train_job_keep(const train_job *job);
size_t train_job_dimension(const train_job *job);
/* The parameters as they are now; they belong to the job. */
const float *train_job_parameters(const train_job *job);

/* The plan as it is now: that of the inputs, or what became of it; the job's. */
const tarry_plan *train_job_plan(const train_job *job);

#endif
