/* SPDX-License-Identifier: Apache-2.0 */
/* A training run's state, and what its files do for each other: train_job.c makes it, and
 * train_rounds.c runs it. */
#ifndef CLI_TRAIN_JOB_STATE_H
#define CLI_TRAIN_JOB_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/job/chunk_gradient.h"
#include "cli/job/verification.h"
#include "cli/output/interrupt.h"
#include "cli/output/progress.h"
#include "cli/train/train_job.h"
#include "cli/train/train_privacy.h"
#include "cli/train/train_scores.h"
#include "learn/objective.h"

struct train_job {
    train_inputs inputs;
    size_t dimension;
    tarry_secure_rules rules;     /* of secure sums; bits 0: they are not */
    tarry_server_settings server; /* as the options, with what they leave open settled */
    tarry_matrix matrices[OBJECTIVE_MATRICES]; /* --compress powersgd: the server's */
    double samples;                            /* that a round sums */
    objective *model;
    train_scores *scores;
    optimizer *optimizer;
    chunk_gradient *gradients;
    /* With --sum everywhere, where the workers have them, those after so many steps, and the
     * optimizer's state with them; else as they are now. */
    float *parameters, *sum, *gradient;
    uint64_t steps, committed; /* of `parameters`, and of the workers */
    verification *verify;      /* NULL without --verify */
    tarry_dp *privacy;         /* NULL without --dp */
    double *costs;             /* of the round's chunks; NULL: not given */
    interrupt *signals;
    _Atomic(uint64_t) interrupted_ns; /* when a signal came; 0: none has */
    _Atomic(runner *) runs;
    pthread_mutex_t runs_lock; /* while it is interrupted, or taken away */
    uint64_t sums_most;        /* up to which step the log of sums may be ahead of the checkpoint */
    uint64_t ahead;            /* the step that it is at; 0: that of the checkpoint */
    history *past;
    uint64_t first_round; /* of this process */
    double start;         /* clock_seconds */
    bool unwritten;       /* the last checkpoint; it was complained of */
    bool raised;          /* the limit of a round's signal; the same */
    tarry_plan *evolved;  /* what rounds go by; NULL: still that of the inputs */
    progress progress;
};

static inline runner *runner_of(const train_job *job)
{
    return atomic_load_explicit(&job->runs, memory_order_relaxed);
}

static inline bool sums_everywhere(const train_job *job)
{
    return job->server.sum == TARRY_SUM_EVERYWHERE;
}

/* Whether the loss of the training data is worked out: not with --dp, which would tell it, and not
 * where the workers alone have the samples. */
bool train_job_is_scored(const train_job *job);

/* As train_checkpoint_mark and train_checkpoint_write; without checkpoints they do nothing. */
int train_job_mark_checkpoint(train_job *job);
int train_job_write_checkpoint(train_job *job, tarry_diagnostic *why);
/* Both, of where the run begins or continues. OPTIONS_PROCEED, or the exit status after a
 * complaint.
 */
int train_job_keep_start(train_job *job);
/* Lets the plan follow what was learned, if it is time to; *changes: what that changed. */
int train_job_adapt(train_job *job, tarry_plan_changes *changes, tarry_diagnostic *why);
/*
 * Before the first round: workers may have said in which racks they are. If all are there and the
 * plan is to be adapted, copies are spread over them; a line says so if some still share one.
 */
int train_job_settle_racks(train_job *job, tarry_plan_changes *changes, tarry_diagnostic *why);
/* Where everyone gets the sum: the parameters here become those of the workers. Errors: STATE (the
 * workers are gone). */
int train_job_catch_up(train_job *job, tarry_diagnostic *why);
/* Prints a line, unless it is to be quiet. */
void train_job_say(void *user, const char *line);
/* Makes the runner of a job whose vectors are there; `again`: in place of one that is gone. Gives
 * back OPTIONS_PROCEED, or the exit status after a complaint; so the next but one. */
int train_job_make_runner(train_job *job, bool again);
/* Where the log of sums may go up to, see train_checkpoint_sums. */
uint64_t train_job_most_ahead(const train_job *job);
/* Before the first round, once workers may come: if `ahead`, decides from where the run continues.
 */
int train_job_settle_start(train_job *job);
/* The runner's `attend`, of a train_job. */
void train_job_attend(void *user);

#endif
