/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry plan --advise, and what an earlier run's report says in place of them. */
#ifndef CLI_ADVISE_OPTIONS_H
#define CLI_ADVISE_OPTIONS_H

#include <tarry/event.h>

#include "cli/plan/candidate_options.h"
#include "cli/simulate/simulate_options.h"

/* Behind the values of tarry_keep: choices of either. */
enum { ADVISE_KEEP_BOTH = TARRY_KEEP_CREDITED + 1 };

typedef struct advise_options {
    /* The workers, links and trials, and in its defaults the lists of choices. Until
     * advise_options_settle, 0, NaN and NULL stand for what was not given. */
    simulate_options world;
    bool advise;
    const char *from;                         /* an earlier run's report; may be NULL */
    uint64_t memory;                          /* most bytes per worker; 0: no limit */
    int keep;                                 /* a tarry_keep, or ADVISE_KEEP_BOTH */
    const char *replication, *pieces, *parts; /* as given; taken apart into the lists */
    candidate_options candidates;
    bool json;
    bool all;

    /* What the report gave; free with advise_options_release. */
    char *report_straggler, *report_chunk_cost;
    double *worker_seconds; /* the world's; NULL: not known */
} advise_options;

#define ADVISE_GROUPS (5 + SIMULATE_WORLD_GROUPS)

void advise_options_init(advise_options *options);
/* The groups of the command's table, with `options` as the place of the values. */
void advise_options_groups(advise_options *options, option_group groups[ADVISE_GROUPS]);

/*
 * Reads the report that --from names, and fills in from it, or else with the defaults, whatever was
 * not given. Gives back OPTIONS_PROCEED, or EXIT_USAGE or EXIT_FAILED after a complaint.
 */
int advise_options_settle(advise_options *options);
void advise_options_release(advise_options *options);

#endif
