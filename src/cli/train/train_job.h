/* SPDX-License-Identifier: Apache-2.0 */
/* A training run: everything it needs, and its rounds. */
#ifndef CLI_TRAIN_JOB_H
#define CLI_TRAIN_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/checkpoint/history.h"
#include "cli/job/gradients.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"
#include "cli/runner/runner.h"
#include "cli/train/train_checkpoint.h"
#include "cli/train/train_options.h"
#include "learn/network.h"
#include "release/dp.h"
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
} train_inputs;

struct train_job {
    train_inputs inputs;
    size_t dimension;
    tarry_secure_rules rules;     /* of secure sums; bits 0: they are not */
    tarry_server_settings server; /* as the options, with what they leave open settled */
    tarry_matrix matrices[OBJECTIVE_MATRICES]; /* --compress powersgd: the server's */
    double samples;                            /* that a round sums */
    objective *model;
    round_scores *scores;
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
    tarry_plan *evolved;  /* what rounds go by; NULL: still that of the inputs */
    progress progress;
};

static inline runner *runner_of(const train_job *job)
{
    return atomic_load_explicit(&job->runs, memory_order_relaxed);
}

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

/*
 * Runs the rounds that are left and writes them into the history, also where something ends them
 * early. A checkpoint that can't be written is complained of, and the rounds go on; the last one
 * has to be written. Gives back EXIT_DONE, or EXIT_FAILED after a complaint.
 */
int train_job_run(train_job *job);

/* Whether these are fit to be kept: the loss of the training data is finite or, with --dp, which
 * does not work it out, they are. */
bool train_job_is_sound(const train_job *job);

/* The plan as it is now: that of the inputs, or what became of it; the job's. */
const tarry_plan *train_job_plan(const train_job *job);

/*
 * What stands between a round's sum and all who use it, with --dp: a tarry_dp (tarry/dp.h), as the
 * tool has it. docs/privacy.md has the argument.
 */

/*
 * For releases behind those that the ledger has; it is borrowed, and NULL where nobody goes on
 * after this process. Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_privacy_create(const tarry_dp_terms *terms, size_t samples, ledger_file *ledger,
                         tarry_dp **out);

/*
 * Releases the sum of a round, and gives it its noise. After an error the sum is not to be used.
 * Errors: STATE (it is not exact: one example may change it by more), and those of
 * tarry_dp_release, with a diagnostic.
 */
int train_privacy_release(tarry_dp *privacy, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic);

/* The whole account, with the least epsilon that is known, which takes some tenths of a second.
 * Errors: NO_MEMORY. */
int train_privacy_account(const tarry_dp *privacy, history_privacy *account,
                          tarry_diagnostic *diagnostic);

#endif
