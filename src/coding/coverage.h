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

#include "coding/coefficients.h"
#include "plan/plan.h"

/* What the credits give with one number of parts. */
typedef struct coverage_recovery {
    uint32_t *ranks;    /* per chunk */
    uint32_t recovered; /* chunks of full rank */
    uint64_t rank_sum;  /* each times its chunk's share of the data */
} coverage_recovery;

typedef struct coverage {
    tarry_allocator allocator;
    const tarry_plan *plan;
    coefficients *work;        /* NULL with at most one part */
    uint64_t *credits;         /* bit chunk_offset[i] + h: the copy of chunk i at its h-th holder */
    uint32_t *copies;          /* per chunk */
    uint32_t *ranks;           /* of all recoveries, one behind the other */
    uint32_t *found;           /* scratch: a rank per recovery */
    uint32_t least;            /* parts of the first recovery */
    uint32_t count;            /* of numbers of parts */
    uint64_t excused;          /* data of the chunks that are excused */
    coverage_recovery *with;   /* of least parts and more, in turn */
    coverage_recovery *raised; /* the same with TARRY_CONDITIONING_MOST, if that is more than the
                                  limit; with one part at most, `with` */
} coverage;

static inline const coverage_recovery *coverage_with(const coverage *state, uint32_t parts)
{
    return &state->with[parts - state->least];
}

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

/* Credited copies of `chunk`, and rank R_S, for `parts`, of the workers
 * that have them (1 copy or more with one part: 1). */
static inline uint32_t coverage_copies(const coverage *state, uint32_t chunk)
{
    return state->copies[chunk];
}
static inline uint32_t coverage_rank(const coverage *state, uint32_t parts, uint32_t chunk)
{
    return coverage_with(state, parts)->ranks[chunk];
}
/* Chunks of full rank, that is, recovered exactly. */
static inline uint32_t coverage_recovered(const coverage *state, uint32_t parts)
{
    return coverage_with(state, parts)->recovered;
}
/* The data of the chunks that are not excused. */
static inline uint64_t coverage_wanted(const coverage *state)
{
    return plan_total_weight(state->plan) - state->excused;
}
/* sum_i w_i (l - rank_i) / (l sum_i w_i) over the chunks that are not excused, where chunk i is w_i
 * of the data (plan_weight); 0 if all are excused. Equal errors are equal to the bit. */
double coverage_expected_error(const coverage *state, uint32_t parts);

/* What a signal with a raised limit would give: coefficients.h. Ranks are at least those above. */
static inline const coverage_recovery *coverage_if_raised(const coverage *state, uint32_t parts)
{
    return &state->raised[parts - state->least];
}
double coverage_raised_error(const coverage *state, uint32_t parts);
/* Of the credited copies of `chunk`. Errors: NUMERICAL. */
int coverage_judge(const coverage *state, uint32_t parts, uint32_t chunk,
                   coefficients_worth *worth);

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
