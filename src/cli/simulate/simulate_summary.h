/* SPDX-License-Identifier: Apache-2.0 */
/* What a scheme's trials come to: the material of the table, the report and the plot. */
#ifndef CLI_SIMULATE_SUMMARY_H
#define CLI_SIMULATE_SUMMARY_H

#include "cli/simulate/simulate_trials.h"
#include "sim/summary.h"

/* Of finite values; NaN where there are none. */
typedef struct spread {
    summary all;
    double p5, p25, p75;
} spread;

enum { SIMULATE_CARDS = 4 };

/* One round of all trials that could end. */
typedef struct round_figures {
    /* Medians; NaN where there are none. */
    double seconds, balanced_ratio, matched_ratio, uncoded_ratio;
    double copies;                            /* computed per chunk, mean */
    double control_bytes, control_messages;   /* mean */
    double parts;                             /* the round's l, mean */
    double sum_seconds;                       /* from the last signal to the end, mean */
    double cards[SIMULATE_CARDS];             /* of tarry_sim_traffic, in its order, mean */
    double root_messages, root_control_bytes; /* the same */
    /* Changes to the plan before it, mean; the data moved is a share of all that is stored. */
    double moved, moved_share, split, merged;
} round_figures;

/* Over those rounds of all trials that could end in which there was such a time. */
typedef struct round_times {
    size_t rounds;
    double p50, p99, most; /* seconds; NaN of none */
} round_times;

/* Of one variant, over the trials that are done; times and errors over those that could end. What
 * is not said to be of all rounds is of the last one. */
typedef struct simulate_summary {
    size_t trials;
    size_t failed;
    char failure[128]; /* why the first of these did; empty if none */
    spread seconds;
    spread balanced, matched; /* in seconds, over all trials */
    spread balanced_ratio, matched_ratio;
    spread uncoded_ratio;  /* over the trials that the uncoded scheme could end too */
    size_t uncoded_failed; /* how many it could not */
    double copies;         /* computed per chunk, mean */
    double work_ratio;     /* copies computed over copies needed, mean */
    double exact;          /* share of the trials */
    double expected_error, chunks_filled, filled_share; /* means */
    double verified_error;         /* worst of all exact rounds; NaN without --vectors */
    double verified_squared_error; /* mean of those that could end */
    size_t raised; /* rounds of all trials in which a signal's conditioning limit was raised; */
    double conditioning, error_bound; /* the largest of these; 0 of none */
    double upload_bytes, control_bytes, control_messages;
    double moved, moved_share, split, merged; /* of all rounds together, mean */
    /* From the last signal to the last sum, without a trial's first round, in which the server
     * learns who is there, where there are more. */
    round_times sums;
    round_figures *rounds; /* by round */
    spread *errors;        /* by deadline; over all trials */
} simulate_summary;

/* One summary for each variant; the caller frees *out. Errors: NO_MEMORY. */
int simulate_summaries_create(const simulate_trials *trials, simulate_summary **out);
void simulate_summaries_free(simulate_summary *summaries, size_t count); /* NULL is allowed */

#endif
