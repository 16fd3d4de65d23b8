/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers' coefficients: for a chunk with finished copies at the workers S, the minimum-norm
 * least-squares solution U (|S| x l) of R_S U = I_l, that is pinv(R_S), with singular values below
 * 1/conditioning_limit taken as zero. Source: arXiv 2405.19509, section 3.
 *
 * The rank that the server sees and the one that the workers solve with come from the same
 * decomposition (base/svd.h) of the same numbers, which gives the same bits on every machine.
 */
#ifndef CODING_COEFFICIENTS_H
#define CODING_COEFFICIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

enum {
    /* How ranks and coefficients come about: the server and all workers of a run go by the same. It
     * grows with each change after which any bit of them may differ. 1 was LAPACK's decomposition.
     */
    COEFFICIENTS_VERSION = 2,
};

/* Workspace for the solutions of one plan; one per thread. */
typedef struct coefficients coefficients;

/* plan is borrowed. All memory is taken here. conditioning_limit > 1. Errors: NO_MEMORY. */
int coefficients_create(const tarry_plan *plan, double conditioning_limit,
                        const tarry_allocator *allocator, coefficients **out);
void coefficients_free(coefficients *work); /* NULL is allowed */

/*
 * Rank of R_S (singular values of at least 1/limit) for S = the holders of `chunk` whose bits are
 * set in `set`, which begins at bit `start` (one bit per holder, in ascending order of workers).
 * *rank is set; 0..parts. Errors: NUMERICAL.
 */
int coefficients_rank(coefficients *work, uint32_t chunk, const uint64_t *set, size_t start,
                      uint32_t *rank);

/*
 * What `worker` encodes with: out[position * parts + k] = U[worker, k] of the chunk at `position`
 * of its order, zero where its own copy is not in psi. psi as in TARRY_MESSAGE_SIGNAL: for each
 * position in turn, one bit per holder of the chunk. Chunks that have the same workers in psi share
 * one solution. `out` has room for load * parts numbers; its content is undefined on an error.
 * Errors: NUMERICAL.
 */
int coefficients_of_worker(coefficients *work, uint32_t worker, const uint64_t *psi, float *out);

/*
 * The coverage tracker: which copies are credited, and what that lets the server recover. O(1) per
 * report for one part; with more parts a chunk's rank is worked out anew until it is full.
 */

typedef struct coverage {
    tarry_allocator allocator;
    const tarry_plan *plan;
    coefficients *work; /* NULL with one part */
    uint64_t *credits;  /* bit chunk_offset[i] + h: the copy of chunk i at its h-th holder */
    uint32_t *copies;   /* per chunk */
    uint32_t *ranks;    /* per chunk */
    uint32_t recovered; /* chunks of full rank */
    uint64_t rank_sum;  /* each rank times its chunk's share of the data */
    uint64_t excused;   /* data of the chunks that are excused */
} coverage;

/* Nothing is credited. plan is borrowed. All memory is taken here. Errors: NO_MEMORY. */
int coverage_create(const tarry_plan *plan, double conditioning_limit,
                    const tarry_allocator *allocator, coverage **out);
void coverage_free(coverage *state); /* NULL is allowed */

/* Takes all credits back: a new round. */
void coverage_clear(coverage *state);
/* Until the next coverage_clear `chunk` counts as recovered, and for nothing in the error. No copy
 * of it is credited, and none may be. */
void coverage_excuse(coverage *state, uint32_t chunk);
/* Credits in `to` what is credited in `from`, and nothing else; both are of one plan and limit. */
void coverage_copy(coverage *to, const coverage *from);

/* Credits the copy at `position` of worker's order, or takes the credit back; no-op if it is so.
 * Errors: NUMERICAL; nothing changes then. */
int coverage_add(coverage *state, uint32_t worker, uint32_t position);
int coverage_remove(coverage *state, uint32_t worker, uint32_t position);
bool coverage_has(const coverage *state, uint32_t worker, uint32_t position);

/* Credited copies of `chunk`, and rank R_S of the workers that have them (1 copy or more with one
 * part: 1). */
static inline uint32_t coverage_copies(const coverage *state, uint32_t chunk)
{
    return state->copies[chunk];
}
static inline uint32_t coverage_rank(const coverage *state, uint32_t chunk)
{
    return state->ranks[chunk];
}
/* Chunks of full rank, that is, recovered exactly. */
static inline uint32_t coverage_recovered(const coverage *state)
{
    return state->recovered;
}
/* The data of the chunks that are not excused. */
static inline uint64_t coverage_wanted(const coverage *state)
{
    return plan_total_weight(state->plan) - state->excused;
}
/* sum_i w_i (l - rank_i) / (l sum_i w_i) over the chunks that are not excused, where chunk i is w_i
 * of the data (plan_weight); 0 if all are excused. Equal errors are equal to the bit. */
double coverage_expected_error(const coverage *state);

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
