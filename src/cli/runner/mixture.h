/* SPDX-License-Identifier: Apache-2.0 */
/* Where workers of different numerics (cli/job/numerics.h) hold copies of the same chunk. */
#ifndef CLI_MIXTURE_H
#define CLI_MIXTURE_H

#include <tarry/plan.h>

/* How many kinds there are in numerics[0..workers-1], 0 being none. */
uint32_t mixture_kinds(const uint64_t *numerics, uint32_t workers);

/* Whether two of them share a chunk; *one and *other are then the first such workers. */
bool mixture_meets(const tarry_plan *plan, const uint64_t *numerics, uint32_t *one,
                   uint32_t *other);

/*
 * How far the sum of a round of `parts` (>= 2) parts can be off where such copies meet, over the
 * sum of the chunks' sizes: d sqrt(|S| l) / sigma_min, for gradients of two kinds that are d apart,
 * and `rounding` each from the truth (docs/conditioning.md). `limit` is that of 1/sigma_min.
 */
double mixture_bound(const tarry_plan *plan, uint32_t parts, double rounding, double limit);

#endif
