/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coverage tracker: which copies are credited, and what that lets the server recover. O(1) per
 * report for one part; with more parts a chunk's rank is worked out anew until it is full. With
 * adaptive parts this is kept for every number of parts that the plan has, at once.
 */
#ifndef CODING_COVERAGE_H
#define CODING_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

typedef struct coverage coverage;

/* Nothing is credited. plan is borrowed. All memory is taken here. Errors: NO_MEMORY. */
int coverage_create(const tarry_plan *plan, double conditioning_limit,
                    const tarry_allocator *allocator, coverage **out);
void coverage_free(coverage *state); /* NULL is allowed */

/* Takes all credits back: a new round. */
void coverage_clear(coverage *state);

/* Credits the copy at `position` of worker's order, or takes the credit back; no-op if it is so.
 * Errors: NUMERICAL; nothing changes then. */
int coverage_add(coverage *state, uint32_t worker, uint32_t position);
int coverage_remove(coverage *state, uint32_t worker, uint32_t position);
bool coverage_has(const coverage *state, uint32_t worker, uint32_t position);

/* Credited copies of `chunk`, and rank R_S, for `parts`, of the workers
 * that have them (1 copy or more with one part: 1). */
uint32_t coverage_copies(const coverage *state, uint32_t chunk);
uint32_t coverage_rank(const coverage *state, uint32_t parts, uint32_t chunk);
/* Chunks of full rank, that is, recovered exactly. */
uint32_t coverage_recovered(const coverage *state, uint32_t parts);
/* sum_i (l - rank_i) / (N l). */
double coverage_expected_error(const coverage *state, uint32_t parts);

/*
 * Writes the part of the state that `worker` needs into psi, as in TARRY_MESSAGE_SIGNAL; psi has
 * room for coverage_view_bits(plan, worker) bits, and the rest of its last word is zeroed. Gives
 * back whether any copy of the worker itself is in it.
 */
bool coverage_view(const coverage *state, uint32_t worker, uint64_t *psi);
size_t coverage_view_bits(const tarry_plan *plan, uint32_t worker);
/* Writes one chunk's bits, one per holder, into `set` from bit `at` on. */
void coverage_view_chunk(const coverage *state, uint32_t chunk, uint64_t *set, size_t at);

#endif
