/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run did: the material of the closing table, the report and the plot. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/local.h>

#include "cli/job/verify.h"
#include "learn/objective.h"

/* NaN stands for what was not worked out. */
typedef struct history_round {
    tarry_round_result result;
    double seconds;
    objective_score train; /* of the parameters that it began with */
    objective_score test;
    tarry_plan_changes changes; /* to the plan before the round */
    verified_round verified;
    double local_steps; /* the mean over the samples, where they are limited in time; else 0, and
                           for a round of an earlier process */
} history_round;

/* What a worker did in the earlier processes of a resumed run. */
typedef struct history_share {
    uint64_t chunks;
    double seconds;
} history_share;

/* What a run has told of its examples, with --dp. */
typedef struct history_privacy {
    bool counted;      /* else there is no noise, and no account */
    bool secret;       /* draws and noise are the system's, not those of a seed */
    bool spent;        /* the budget ended the run */
    uint64_t releases; /* of sums; those of processes that were killed, too */
    double epsilon, delta;
} history_privacy;

typedef struct history {
    history_round *rounds;
    size_t count;
    size_t capacity;
    uint32_t workers;
    uint32_t chunks;
    tarry_worker_state *worker; /* workers of them, as they stood at the end; all processes */
    history_share *earlier;     /* workers of them */
    double earlier_seconds;     /* of `seconds` */
    objective_score train_end;  /* of the parameters as they were last looked at */
    objective_score test_end;   /* NaN without test samples */
    double seconds;             /* of the whole run, evaluations included, without
                                   the time between a checkpoint and going on from it */
    history_privacy privacy;
    bool interrupted;
    char error[TARRY_DIAGNOSTIC_SIZE + 256]; /* what ended the run early; empty if nothing did */
} history;

/* Errors: NO_MEMORY. */
int history_create(uint32_t workers, uint32_t chunks, history **out);
void history_free(history *past); /* NULL is allowed */

/* A round of which nothing is known: zeroed, with scores and errors NaN. */
extern const history_round history_blank_round;

/* Room for one more round, blank and counted; NULL if there is no memory. Valid until the next
 * call. */
history_round *history_add(history *past);

/* The scores after `rounds` (0..count) rounds: those that the next one began with, or the end's. */
objective_score history_train(const history *past, size_t rounds);
objective_score history_test(const history *past, size_t rounds);

/* What a worker spent on its chunks; NaN: not known, since it computes elsewhere. */
double history_seconds(const tarry_worker_state *worker);
/* Of a round: how often a chunk was computed. */
double history_copies_per_chunk(const tarry_round_result *result);
/* Rounds of which a signal's conditioning limit was raised, and the largest 1/sigma_min and bound
 * of rounding errors among them; 0 of none. */
size_t history_raised_rounds(const history *past, double *conditioning, double *error_bound);
/* The largest of each over all rounds; NaN if none was verified. */
verified_round history_worst(const history *past);

#endif
