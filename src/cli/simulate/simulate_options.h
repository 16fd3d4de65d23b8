/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry simulate. */
#ifndef CLI_SIMULATE_OPTIONS_H
#define CLI_SIMULATE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>
#include <tarry/sim.h>

#include "cli/options/options.h"
#include "cli/options/run_options.h"
#include "sim/baseline.h"

/*
 * The schemes of the literature as settings of one machine (docs/simulate.md has the table), and
 * schemes of one's own.
 *
 * A list of schemes is NAME or NAME:KEY=VALUE,KEY=VALUE..., separated by commas; keys are flags'
 * names. What begins with a digit goes on with a value's list.
 */

#define SIMULATE_MOST_COUNT 1000000

/* When a scheme's round ends, beyond the rules that stand by themselves. */
typedef enum scheme_stop {
    SCHEME_STOP_GIVEN,    /* server.stop and its limit */
    SCHEME_STOP_IGNORE,   /* all workers but `ignore` have finished */
    SCHEME_STOP_ORIGINAL, /* all workers but replication - parts have finished */
    SCHEME_STOP_DEADLINE, /* at the last of the deadlines that are swept */
} scheme_stop;

/* What a scheme is made of. The flags fill one of these, from which each scheme starts. */
typedef struct scheme_settings {
    run_options run; /* the first member; numbers that are swept stand below instead */
    uint32_t fixed;  /* a TARRY_SETTING_BIT for each that the scheme fixes, or its keys set */
    const char *replication;
    whole_list replications; /* swept */
    const char *pieces;
    whole_list piece_counts; /* swept; 0: left open */
    const char *parts;
    whole_list part_counts; /* swept */
    const char *stop;
    scheme_stop stop_kind;
    int upload;        /* a tarry_sim_upload */
    bool upload_fixed; /* by the scheme, for as long as its other settings allow it */
    int sum;           /* a tarry_sim_way */
    int costs;         /* a scheme_costs */
    uint32_t ignore;   /* UINT32_MAX until it is given, or scheme_ignored */
    const char *name;
    const char *deadline;
    const char *backup;
    baseline_settings model; /* of a scheme that the machines don't speak */
} scheme_settings;

/* The tables of the keys that are flags too. */
#define SCHEME_GROUPS 4

/* Random design, optimal order, replication 8, 1 piece, 1 part, credit by chunk, exact, coded
 * uploads. */
void scheme_settings_init(scheme_settings *settings);

/* The first of them: replication, pieces and parts. */
option_group scheme_cuts_group(scheme_settings *settings);

const char *simulate_upload_name(tarry_sim_upload upload);
const char *simulate_sum_name(tarry_sim_way way);

/* What is simulated beside each other: each scheme with each of its replications, pieces and parts.
 */

/* One scheme with one replication, one number of pieces and one of parts. */
typedef struct simulate_variant {
    const char *scheme; /* its name, or as it was written */
    char stop[32];
    run_options run;         /* of this variant alone, settled */
    tarry_sim_settings sim;  /* all but what a trial draws */
    baseline_settings model; /* of kind BASELINE_NONE where the machines run */
    uint32_t stored;         /* copies of the data that the workers store */
} simulate_variant;

typedef struct simulate_variants {
    size_t count;
    simulate_variant *items;
    char *text; /* what the items' texts point into */
} simulate_variants;

/* What all variants have in common. */
typedef struct scheme_frame {
    uint32_t workers, chunks;
    uint64_t seed;
    double last_deadline;   /* of the sweep; NaN if there is none */
    tarry_sim_settings sim; /* the links, the costs and the gradients */
} scheme_frame;

/*
 * Reads `list`, and sweeps each scheme over its replications, its pieces and, as far as the
 * replications allow, its parts.
 * The caller frees *variants with simulate_variants_free. Errors: ARGUMENT (flags that don't go
 * together, whatever the scheme), FORMAT, FILE and NO_MEMORY, with a diagnostic.
 */
int simulate_variants_read(const char *list, const scheme_settings *defaults,
                           const scheme_frame *frame, simulate_variants *variants,
                           tarry_diagnostic *diagnostic);
void simulate_variants_free(simulate_variants *variants);

/* Workers whose links carry less than the others', and what messages wait. */

/* A lognormal time of that mean, in seconds, and of a standard deviation so many times that. */
typedef struct jitter_links {
    double mean, spread;
} jitter_links;

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

    double latency;      /* seconds */
    double message_time; /* seconds */
    double bandwidth;    /* bytes per second of each worker's link */
    const char *jitter;  /* as it was given; NULL: none */
    jitter_links waits;
    double server_bandwidth;  /* of the server's card */
    int card_shared;          /* as a choice */
    uint64_t dimension;       /* d */
    uint64_t parameter_bytes; /* UINT64_MAX until checked: as many as a gradient's */
    double silence;           /* seconds */

    uint64_t trials;
    uint32_t rounds; /* of each trial */
    uint64_t seed;
    bool plan_per_trial;
    bool no_bounds; /* the least times are not asked for */
    uint32_t jobs;  /* 0 until checked */

    const char *report;
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

#endif
