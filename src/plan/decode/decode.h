/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decode matrices R (l x m), one for each number of parts that a round may have: all ones for
 * one part; for more, unit columns, spread so that workers which share a chunk are well conditioned
 * together. Only +, -, *, / and sqrt are used, in a fixed order, so that R is the same to the bit
 * on every machine.
 */
#ifndef PLAN_DECODE_H
#define PLAN_DECODE_H

#include "plan/plan.h"

/*
 * Sets plan->decode (taken from plan->allocator, owned by the plan; untouched on failure) and
 * plan->conditioning, from the seed and the plan's assignment: all else but the digest is set.
 * Every chunk has at least `parts` holders. Errors: NO_MEMORY.
 */
int decode_design(tarry_plan *plan, uint64_t seed);

/* Sets both to the matrices of `from`, a plan of as many workers and parts, and to its conditioning
 * under this plan's assignment. Else as above. */
int decode_keep(tarry_plan *plan, const tarry_plan *from);

#endif
