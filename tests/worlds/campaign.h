/* SPDX-License-Identifier: Apache-2.0 */
/* Many small worlds with faults, on several threads; and the first one that breaks an invariant. */
#ifndef WORLDS_CAMPAIGN_H
#define WORLDS_CAMPAIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "worlds/cluster.h"

enum { FAULT_MOST_JOBS = 64 };

typedef struct fault_campaign {
    /* what to run */
    cluster_job job;      /* of each run, but for its number */
    uint32_t first, runs; /* the runs first .. first + runs - 1 */
    uint32_t jobs;        /* threads, 1..FAULT_MOST_JOBS */
    bool quiet;           /* no progress line */
    /* what came of it */
    world_counts counts;
    double seconds;
    bool broken; /* an invariant, in the run `broken_run`: the first run in which one is */
    uint32_t broken_run;
    char broken_by[LINE_BYTES], why[LINE_BYTES]; /* its name, and what is wrong */
} fault_campaign;

/* Runs it, until an invariant is broken or Ctrl-C comes. Errors: NO_MEMORY, SYSTEM, INTERRUPTED;
 * what was done until then is counted. */
int fault_campaign_run(fault_campaign *it);

#endif
