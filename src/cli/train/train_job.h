/* SPDX-License-Identifier: Apache-2.0 */
/* A training run: everything it needs, and its rounds. */
#ifndef CLI_TRAIN_JOB_H
#define CLI_TRAIN_JOB_H

#include "cli/checkpoint/history.h"
#include "cli/runner/crew_room.h"
#include "cli/runner/runner.h"
#include "cli/train/train_checkpoint.h"
#include "cli/train/train_options.h"
#include "sim/chunk_cost.h"

typedef struct train_job train_job;

typedef struct train_inputs {
    const char *command; /* the tool's, for complaints */
    const train_options *options;
    const tarry_plan *plan;
    const tarry_straggler *straggler;
    const chunk_cost *costs; /* of whole chunks, given to the server; NULL: none are */
    const dataset *train;
    const dataset *test;      /* NULL if there is none */
    runner_create *create;    /* what makes the workers */
    void *create_user;        /* of create */
    train_checkpoint *keeper; /* NULL: no checkpoints */
    bool silent;              /* what ends the rounds early is in the history alone */
} train_inputs;

/* The workers on this machine of a training whose runner is made by `create`. */
crew_size train_job_crew(const train_options *options, runner_create *create);

/*
 * Starts the workers; from here on the first Ctrl-C is caught. The inputs and `past`, a new
 * history, are borrowed and must outlive the job. With checkpoints, it goes on where they say, with
 * the earlier rounds in `past`, and the first one is written: one that can't be ends it here. Gives
 * back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_job_create(const train_inputs *inputs, history *past, train_job **out);
void train_job_free(train_job *job); /* NULL is allowed */

/* What a process does that only works for a job whose rounds another one runs: until they are over.
 * The request is of a job that begins. Errors: with a diagnostic. */
typedef int train_follow(void *user, const runner_request *request, tarry_diagnostic *why);
/* Makes what such a process computes with, and calls `follow`; no checkpoint is read or written.
 * Gives back EXIT_DONE, or EXIT_FAILED after a complaint. */
int train_job_follow(const train_inputs *inputs, train_follow *follow, void *user);

/*
 * Runs the rounds that are left and writes them into the history, also where something ends them
 * early. A checkpoint that can't be written is complained of, and the rounds go on; the last one
 * has to be written. Gives back EXIT_DONE, or EXIT_FAILED after a complaint.
 */
int train_job_run(train_job *job);

/* As the runner's describe; null where there is none, NULL without memory. */
json_t *train_job_describe(const train_job *job);
/* How its server and workers are set; the job's. */
const tarry_server_settings *train_job_server(const train_job *job);
size_t train_job_dimension(const train_job *job);
/* Whether these are fit to be kept: the loss of the training data is finite or, with --dp, which
 * does not work it out, they are. */
bool train_job_is_sound(const train_job *job);
/* The parameters as they are now; they belong to the job. */
const float *train_job_parameters(const train_job *job);

/* The plan as it is now: that of the inputs, or what became of it; the job's. */
const tarry_plan *train_job_plan(const train_job *job);

#endif
