/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tarry plan --advise, and what an earlier run's report says in place of them. */
#ifndef CLI_ADVISE_OPTIONS_H
#define CLI_ADVISE_OPTIONS_H

#include <tarry/event.h>

#include "cli/options/list.h"
#include "cli/options/options.h"

/* Behind the values of tarry_keep: choices of either. */
enum { ADVISE_KEEP_BOTH = TARRY_KEEP_CREDITED + 1 };

/* Until advise_options_settle, 0, NaN and NULL stand for what was not given. */
typedef struct advise_options {
    bool advise;
    const char *from; /* an earlier run's report; may be NULL */
    const char *straggler;
    uint32_t workers, chunks;
    const char *chunk_cost;
    double chunk_seconds;
    double overhead; /* seconds of each piece */

    uint64_t dimension;      /* d */
    double latency;          /* seconds */
    double bandwidth;        /* bytes per second of each worker's link */
    double server_bandwidth; /* of the server's card */
    uint64_t memory;         /* most bytes per worker; 0: no limit */

    int keep; /* a tarry_keep, or ADVISE_KEEP_BOTH */

    const char *replication, *pieces, *parts; /* as given; taken apart into the lists */
    whole_list replications, piece_counts, part_counts;

    uint64_t trials;
    uint32_t rounds;
    uint64_t seed;
    uint32_t jobs;
    bool json;
    bool all;
    bool quiet;

    /* What the report gave; free with advise_options_release. */
    char *report_straggler, *report_chunk_cost;
    double *worker_seconds; /* by worker, of a whole chunk without its overhead; NULL: not known */
} advise_options;

#define ADVISE_GROUPS 4

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
