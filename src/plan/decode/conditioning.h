/* SPDX-License-Identifier: Apache-2.0 */
/* How well the sets of workers that share a chunk can be decoded. */
#ifndef PLAN_CONDITIONING_H
#define PLAN_CONDITIONING_H

#include "plan/plan.h"

/*
 * 1/sigma_min of the size x size matrix whose columns stand one behind the other in `columns`;
 * infinite if it is singular. Destroys the columns.
 */
double conditioning_of_columns(double *columns, uint32_t size);

/*
 * Over the sets of `parts` workers that share a chunk: the largest 1/sigma_min(R_S) and the median
 * (the lower one of an even number); parts >= 2. A set counts once for each chunk that it shares.
 * If there are too many, a sample of RANDOM_CONDITIONING: a random chunk, a random set of its
 * holders. decode is as plan_decode's (parts x workers); every chunk has at least `parts` holders.
 * Errors: NO_MEMORY.
 */
int conditioning_measure(const tarry_plan *plan, uint32_t parts, const double *decode,
                         uint64_t seed, tarry_conditioning *out);

#endif
