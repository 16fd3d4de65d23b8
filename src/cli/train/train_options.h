/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry train. */
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include <tarry/dp.h>

#include "cli/options/run_options.h"
#include "cli/options/secure_options.h"
#include "learn/dataset.h"
#include "learn/optimizer.h"

typedef struct train_options {
    run_options run;
    uint64_t outlived_ns; /* so long it is worth waiting for workers that outlived the process
                             before this one; 0: they do not. The command's, not an option */

    dataset_source source; /* path NULL: a synthetic data set */
    const char *test;
    const char *test_labels;
    double holdout;   /* NaN until checked; 0: nothing is held out */
    uint64_t samples; /* synthetic; 0 until checked */
    uint32_t features;
    uint32_t classes;

    model_kind model;
    bool model_given;
    const char *hidden; /* taken apart into hidden_widths */
    uint32_t hidden_widths[OBJECTIVE_MAX_HIDDEN];
    uint32_t hidden_layers;
    bool intercept;
    double l2;
    optimizer_kind optimizer;
    double rate;             /* NaN until checked */
    uint64_t batch;          /* samples per round, or per local step; 0: all */
    const char *local_steps; /* taken apart into the next; NULL: none */
    local_settings local;    /* rate NaN: not said there; the inner one as a whole once checked */
    const char *outer;       /* NULL: not said */
    optimizer_settings step; /* of the parameters, between rounds; checked */

    uint64_t rounds;
    const char *dp; /* taken apart into the next; NULL: sums are used as they are */
    tarry_dp_terms privacy;
    secure_options secure;
    const char *straggler;
    bool verify;
    uint64_t evaluate; /* the loss is worked out every so many rounds */

    const char *checkpoint; /* NULL: none are written */
    uint64_t checkpoint_every;
    bool resume;

    const char *report;
    const char *save;
    bool quiet;
    bool fail_on_divergence; /* a loss above that of the beginning is an error */
} train_options;

#define TRAIN_GROUPS (7 + RUN_GROUPS)

void train_options_init(train_options *options);
/* The groups of a command's table, with `options` as the place of the values; a command that trains
 * over other workers has groups of its own beside them. */
void train_options_groups(train_options *options, option_group groups[TRAIN_GROUPS]);

/* --dp, for a command whose workers are threads of its own process. */
option_group train_options_dp_group(train_options *options);

/*
 * Checks the options against each other and sets the defaults that depend on others. Gives back
 * OPTIONS_PROCEED, or EXIT_USAGE after a complaint.
 */
int train_options_check(train_options *options);

const char *train_model_name(model_kind model);

/*
 * Reads or makes the training samples, and the test samples if there are any (else *test is NULL);
 * both are the caller's. Fits the plan to how many there are (train_options_fit). Gives back
 * OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_data_load(train_options *options, dataset **train, dataset **test);

/* Where the workers of tarry train are. */

typedef enum train_engine {
    TRAIN_DIRECT,
    TRAIN_MPI,      /* ranks of MPI, and sums as fit them */
    TRAIN_MPI_ONLY, /* sums over MPI in any case */
} train_engine;

typedef struct train_where {
    bool processes;
    int engine; /* a train_engine */
} train_where;

option_group train_where_group(train_where *where);

#endif
