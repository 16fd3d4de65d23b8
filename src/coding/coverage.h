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
    coefficients *work;      /* NULL with at most one part */
    uint64_t *credits;       /* bit chunk_offset[i] + h: the copy of chunk i at its h-th holder */
    uint32_t *copies;        /* per chunk */
    uint32_t *ranks;         /* of all recoveries, one behind the other */
    uint32_t *found;         /* scratch: a rank per recovery */
    const double *values;    /* per chunk, borrowed: what it counts for in the error; NULL: as much
                                as it is of the data */
    uint32_t least;          /* parts of the first recovery */
    uint32_t count;          /* of numbers of parts */
    coverage_recovery *with; /* of least parts and more, in turn */
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
/* Nothing of `chunk`, of which no copy is credited, is missing: it counts as recovered until the
 * next coverage_clear, and no copy of it may be credited. */
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
/* What `chunk` counts for in the error. */
static inline double coverage_value(const coverage *state, uint32_t chunk)
{
    return state->values == NULL ? (double)plan_weight(state->plan, chunk) : state->values[chunk];
}
/* sum_i v_i (l - rank_i) / (l sum_i v_i) by the chunks' values; 0 if these are all 0. */
double coverage_expected_error(const coverage *state, uint32_t parts);
/*
 * Whether an error is at most as large as another one, or as a limit. Values are rounded, and so
 * are sums of them: errors that are equal, such as those of nothing in two and in three parts, may
 * differ in their last bits, which must decide nothing. So they are equal within this share, beyond
 * what rounding does to sums of a million values.
 */
#define COVERAGE_ERROR_EQUAL 1e-9
static inline bool coverage_error_within(double error, double limit)
{
    return error <= limit * (1 + COVERAGE_ERROR_EQUAL);
}

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
