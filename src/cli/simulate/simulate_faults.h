/* SPDX-License-Identifier: Apache-2.0 */
/* Many small worlds with faults, on several threads; and the first one that breaks an invariant. */
#ifndef CLI_SIMULATE_FAULTS_H
#define CLI_SIMULATE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/faults/cluster.h"

enum { FAULT_MOST_JOBS = 64 };

typedef struct fault_campaign {
    /* what to run */
    uint64_t seed;
    uint32_t first, runs; /* the runs first .. first + runs - 1 */
    uint32_t jobs;        /* threads, 1..FAULT_MOST_JOBS */
    bool quiet;           /* no progress line */
    tarry_sum_place sum;
    bool secure;   /* worlds whose sums are secure alone */
    plant planted; /* PLANT_NONE but in a build of the tests */
    /* what came of it */
    uint64_t done; /* runs */
    uint64_t rounds, exact, failed, attempts, late, silent, restarts, steps, faults;
    uint64_t replans, turned; /* changes of the plan, and workers that turned where they were */
    uint64_t planned[MODEL_CODING + 1]; /* faults at a time, by the server's phase */
    uint64_t secure_sums, secure_repeated, second_lives, torn_sums; /* where sums are secure */
    uint64_t commits, returns, fetches, loads, differing; /* where everyone gets the sum */
    uint64_t longest;                                     /* round, in thousandths of its bound */
    double seconds;
    bool broken; /* an invariant, in the run `broken_run`: the first run in which one is */
    uint32_t broken_run;
} fault_campaign;

/* Runs it, until an invariant is broken or Ctrl-C comes. Errors: NO_MEMORY, SYSTEM, INTERRUPTED;
 * what was done until then is counted. */
int fault_campaign_run(fault_campaign *it);

#endif
