/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of all schemes, over as many threads as asked for. In a trial all schemes meet the same
 * draws: the straggler's seed is drawn from the run's seed and the trial's number t, and its rounds
 * are those from t R on, with R rounds in each trial. A trial's rounds follow each other in one
 * world, with one server. The uncoded scheme meets them too, over the same links, whether it is
 * asked for or not. No figure depends on the number of threads.
 */
#ifndef CLI_SIMULATE_TRIALS_H
#define CLI_SIMULATE_TRIALS_H

#include <tarry/sim.h>

#include "cli/options/options.h"
#include "cli/simulate/simulate_options.h"
#include "sim/chunk_cost.h"

/* One round of a variant in one trial; NaN stands for what is not known. */
typedef struct simulate_outcome {
    tarry_round_result
        result;               /* in every round of a trial that could not end: the failed round's */
    double seconds;           /* NaN if the trial could not end */
    double uncoded;           /* what the uncoded scheme took for the same round, likewise */
    double balanced, matched; /* the bounds, in seconds, if they are worked out; infinite: the
                                 workers that are alive can't */
    tarry_plan_changes changes; /* to the plan before the round */
    tarry_sim_traffic traffic;  /* all 0 of a scheme that is a model of its own */
} simulate_outcome;

typedef struct simulate_trials {
    const simulate_options *options;
    const simulate_variants *variants;
    chunk_cost *costs;
    tarry_plan **plans;        /* by variant; NULL elements with --plan-per-trial */
    simulate_variants uncoded; /* what all variants are compared with: one, or none */
    tarry_plan *uncoded_plan;
    simulate_outcome *outcomes; /* by trial, variant and round */
    double *errors;             /* by trial, variant and deadline; NULL without deadlines */
    bool *done;                 /* by trial: all variants ended */
    size_t done_count;
    double seconds; /* that the trials took */
    bool interrupted;
    char error[TARRY_DIAGNOSTIC_SIZE + 256]; /* what ended the run early; empty if nothing did */
} simulate_trials;

/* Makes the plans and checks the SPECs. OPTIONS_PROCEED, or the exit status after a complaint. */
int simulate_trials_create(const simulate_options *options, const simulate_variants *variants,
                           simulate_trials **out);
void simulate_trials_free(simulate_trials *trials); /* NULL is allowed */

/* Runs until all are done, or a signal comes: EXIT_DONE, or EXIT_FAILED after a complaint. */
int simulate_trials_run(simulate_trials *trials);

/* One outcome per round; all have an error, or none has. */
const simulate_outcome *simulate_trials_outcomes(const simulate_trials *trials, size_t trial,
                                                 size_t variant);

#endif
