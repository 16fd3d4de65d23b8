/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fewest faults that still break an invariant, by delta debugging (A. Zeller, R. Hildebrandt,
 * Simplifying and isolating failure-inducing input, IEEE TSE 2002): afterwards, none of those that
 * are left can be left out.
 */
#ifndef WORLDS_SHRINK_H
#define WORLDS_SHRINK_H

#include "worlds/cluster.h"

typedef struct shrinking {
    fault_list left;  /* the result: run the job with these allowed */
    fault_list trial; /* work space */
    uint32_t runs;    /* worlds that it took */
} shrinking;

/*
 * `world` was run with `job`, which allowed all faults, and an invariant is broken. On success it
 * is broken again, in the world with the faults `left` only. Errors: NO_MEMORY, STATE (it does not
 * show again with the faults that were recorded: there were too many of them).
 */
int shrink_faults(cluster *world, const cluster_job *job, shrinking *it);

#endif
