/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads the columns of a decode matrix by descent, one worker's column at a time. */
#ifndef PLAN_DESCENT_H
#define PLAN_DESCENT_H

#include "plan/plan.h"

/*
 * Writes unit columns into decode (parts x workers, row-major; parts >= 2): drawn from (seed,
 * restart), and then moved so as to make the sum over the sets S of workers that share a chunk of
 * ||R_S^-1||_F^(2p) small, with p growing. Every chunk has at least `parts` holders.
 *
 * The work is bounded by counting operations. `operations` buy up to 30 sweeps over the workers; a
 * plan for which they do not buy 6 gets 6 for up to four times as many; and one for which these do
 * not buy 2 gets 2 for `operations`, in which each worker looks at a random sample of its sets.
 * That keeps the time in bounds, but the sets outside of the sample stay as random columns have
 * them. Errors: NO_MEMORY.
 */
int descent_spread(const tarry_plan *plan, uint32_t parts, uint64_t seed, uint32_t restart,
                   double operations, double *decode);

/* About how many operations that takes. */
double descent_operations(const tarry_plan *plan, uint32_t parts, double operations);

#endif
