/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry simulate. */
#ifndef CLI_SIMULATE_OPTIONS_H
#define CLI_SIMULATE_OPTIONS_H

#include <tarry/sim.h>

#include "cli/simulate/simulate_links.h"
#include "cli/simulate/simulate_variants.h"

typedef struct simulate_options {
    const char *command; /* whose trials these are, for complaints */
    const char *scheme;
    scheme_settings defaults; /* what schemes take that don't fix it themselves */
    const char *deadline;
    real_list deadlines; /* at which the error is worked out, in seconds; may be none */

    uint32_t workers, chunks;
    bool workers_given;
    const char *straggler;
    const char *chunk_cost;
    double chunk_seconds;
    double overhead; /* of each piece, in seconds */
    /* By worker: what it takes for a whole chunk besides the SPEC's seconds, INFINITY: it never
     * answers; NULL: nothing. */
    const double *worker_seconds;

    double latency;         /* seconds */
    double message_time;    /* seconds */
    double bandwidth;       /* bytes per second of each worker's link */
    double up_bandwidth;    /* the same away from the worker; 0: the same */
    const char *slow_links; /* as it was given; NULL: none */
    slow_links thin;
    const char *jitter; /* as it was given; NULL: none */
    jitter_links waits;
    double server_bandwidth;  /* of the server's card */
    int card_shared;          /* as a choice */
    uint64_t dimension;       /* d */
    uint64_t parameter_bytes; /* UINT64_MAX until checked: as many as a gradient's */
    double silence;           /* seconds */
    double log;               /* the same, until an entry of the server's log is durable */
    uint64_t vectors;         /* 0: none; otherwise d */

    uint64_t trials;
    uint32_t rounds; /* of each trial */
    uint64_t seed;
    bool plan_per_trial;
    bool no_bounds; /* the least times are not asked for */
    uint32_t jobs;  /* 0 until checked */

    const char *report;
    const char *plot;
    bool quiet;
} simulate_options;

#define SIMULATE_WORLD_GROUPS 3
#define SIMULATE_GROUPS (3 + SIMULATE_WORLD_GROUPS + SCHEME_GROUPS)
#define SIMULATE_MOST_JOBS 1024

void simulate_options_init(simulate_options *options);
/* The groups of the command's table, with `options` as the place of the values. */
void simulate_options_groups(simulate_options *options, option_group groups[SIMULATE_GROUPS]);

/* Those of the workers and chunks, the links and the trials, for a command that simulates schemes
 * of its own; with its `words`, which may be NULL. */
void simulate_world_groups(simulate_options *options, const option_words *words,
                           option_group groups[SIMULATE_WORLD_GROUPS]);

/* As many as the machine has cores. */
uint32_t simulate_usual_jobs(void);

/* What all schemes have in common. */
scheme_frame simulate_options_frame(const simulate_options *options);

/*
 * Checks the options against each other, sets the defaults that depend on others, and reads the
 * schemes, which the caller frees. Gives back OPTIONS_PROCEED, or EXIT_USAGE or EXIT_FAILED after a
 * complaint.
 */
int simulate_options_check(simulate_options *options, simulate_variants *variants);

#endif
