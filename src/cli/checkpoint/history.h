/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run did: the material of the closing table, the report and the plot. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/local.h>

#include "cli/checkpoint/round_store.h"
#include "cli/checkpoint/sketch.h"
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
    double saturation;  /* the share of numbers beyond the bound of secure sums; NaN: they are not
                           secure, or the round is one of an earlier process */
    bool lost;          /* nothing else is known: its process ended before it wrote this down */
    double local_steps; /* the mean over the samples, where they are limited in time; else 0, and
                           for a round of an earlier process */
    double local_steps_used; /* by how many the outer step is; the same, or fewer */
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

/* Sums and extremes over rounds. */
typedef struct history_totals {
    size_t rounds; /* that are counted here: of lost ones nothing is */
    size_t lost;
    size_t exact;
    double seconds, copies, needed, attempts, moved, split, merged;
    double control_bytes, control_messages, upload_bytes, expected_error;
    verified_round worst; /* the largest of each; NaN if none was verified */
    size_t raised;        /* rounds that raised a signal's conditioning limit */
    double conditioning, error_bound;
    size_t saturated; /* rounds whose saturation is known */
    double saturation_sum, saturation_most;
} history_totals;

typedef struct history {
    size_t first;           /* rounds before it are not known: their record was lost */
    size_t count;           /* rounds done, those before `first` included */
    history_round last;     /* the latest round, which may still change */
    history_totals settled; /* of the rounds before `last` */
    sketch *times;          /* seconds of the rounds before `last` */
    round_store *store;     /* the rounds before `last`; NULL: they are not kept */
    objective_score train_begin, test_begin; /* of the run; NaN if that round is not known */
    uint32_t workers;
    uint32_t chunks;
    tarry_worker_state *worker; /* workers of them, as they stood at the end; all processes */
    history_share *earlier;     /* workers of them */
    bool resumed;               /* a process before this one did rounds */
    size_t resumed_after;       /* they are as many */
    double earlier_seconds;     /* of `seconds` */
    objective_score train_end;  /* of the parameters as they were last looked at */
    objective_score test_end;   /* NaN without test samples */
    double seconds;             /* of the whole run, evaluations included, without
                                   the time between a checkpoint and going on from it */
    history_privacy privacy;
    size_t shortened; /* rounds of this process whose local_steps_used are fewer than local_steps */
    bool interrupted;
    char error[TARRY_DIAGNOSTIC_SIZE + 256]; /* what ended the run early; empty if nothing did */
} history;

/* Errors: NO_MEMORY. */
int history_create(uint32_t workers, uint32_t chunks, history **out);
void history_free(history *past); /* NULL is allowed */

/* A round of which nothing is known: zeroed, with scores and errors NaN. */
extern const history_round history_blank_round;

/* Rounds are kept in a file in the folder of `path`, not in memory (round_store.h). Call it before
 * the first round; so the next. */
void history_use_file(history *past, const char *path);
/* Keeps only totals: history_round_at must not be called. */
void history_forget_rounds(history *past);

/* Adds one more round, blank and counted; the one before cannot change any more. NULL if there is
 * no memory. Valid until the next call. */
history_round *history_add(history *past);
/* Adds so many that are lost. Errors: NO_MEMORY. */
int history_add_lost(history *past, size_t count);
/* Forgets all rounds; the next one is `first`. */
void history_clear(history *past, size_t first);

/* Round first..count - 1. Errors: FILE, NO_MEMORY, with a diagnostic; *out is blank then. */
int history_round_at(const history *past, size_t round, history_round *out,
                     tarry_diagnostic *diagnostic);

/* The scores of the parameters after that round: those that the next one began with, or the end's.
 * Errors: as history_round_at; NaN then. */
int history_scores_after(const history *past, size_t round, objective_score *train,
                         objective_score *test, tarry_diagnostic *diagnostic);
/* The scores that a run began with: NaN if they are not known. */
objective_score history_train_begin(const history *past);
objective_score history_test_begin(const history *past);

/* Of all rounds that are known. */
history_totals history_total(const history *past);
/* The seconds of all rounds that are known; the caller frees *out. Errors: NO_MEMORY. */
int history_times(const history *past, sketch **out);

/* What a worker spent on its chunks; NaN: not known, since it computes elsewhere. */
double history_seconds(const tarry_worker_state *worker);
/* Of a round: how often a chunk was computed. */
double history_copies_per_chunk(const tarry_round_result *result);

#endif
