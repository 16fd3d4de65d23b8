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
 * Rank of R_S for `parts` (singular values of at least 1/limit) for S = the holders of `chunk`
 * whose bits are set in `set`, which begins at bit `start` (one bit per holder, in ascending order
 * of workers). *rank is set; 0..parts. Errors: NUMERICAL.
 */
int coefficients_rank(coefficients *work, uint32_t parts, uint32_t chunk, const uint64_t *set,
                      size_t start, uint32_t *rank);

/* What the copies of a chunk at the workers S are worth, by the limit and with a raised one. */
typedef struct coefficients_worth {
    uint32_t rank; /* as coefficients_rank */
    uint32_t
        raised_rank; /* the same with TARRY_CONDITIONING_MOST, if that is more than the limit */
    /* Of the singular values that raised_rank counts, s_1 >= s_2 >= ...; 0 if it counts none: */
    double inverse;       /* 1/s_min */
    double amplification; /* ||R_S||_F ||U||_F = sqrt(sum of all s^2) sqrt(sum 1/s^2) */
} coefficients_worth;

/* The same as coefficients_rank with all of it, from one decomposition. Errors: NUMERICAL. */
int coefficients_judge(coefficients *work, uint32_t parts, uint32_t chunk, const uint64_t *set,
                       size_t start, coefficients_worth *worth);

/* From here on singular values below 1/limit count as zero; limit > 1. */
void coefficients_set_limit(coefficients *work, double limit);

/*
 * What `worker` encodes with for `parts` (of those the plan has): out[position * parts + k] =
 * U[worker, k] of the chunk at `position` of its order, zero where its own copy is not in psi. psi
 * as in TARRY_MESSAGE_SIGNAL: for each position in turn, one bit per holder of the chunk. Chunks
 * that have the same workers in psi share one solution. `out` has room for load * parts numbers;
 * its content is undefined on an error. Errors: NUMERICAL.
 */
int coefficients_of_worker(coefficients *work, uint32_t parts, uint32_t worker, const uint64_t *psi,
                           float *out);

#endif
