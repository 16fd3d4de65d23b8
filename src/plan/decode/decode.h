/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decode matrix R (l x m): all ones for one part; for more, unit columns, spread so that
 * workers which share a chunk are well conditioned together. Only +, -, *, / and sqrt are used, in
 * a fixed order, so that R is the same to the bit on every machine.
 */
#ifndef PLAN_DECODE_H
#define PLAN_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "plan/plan.h"

/*
 * Sets plan->decode (taken from plan->allocator, owned by the plan; untouched on failure) and
 * plan->conditioning, from the seed and the plan's assignment: all else but the digest is set.
 * The matrix is a new one, or, unless `from` is NULL, that of `from`, a plan of as many workers and
 * parts. Every chunk has at least `parts` holders. Errors: NO_MEMORY.
 */
int decode_make(tarry_plan *plan, uint64_t seed, const tarry_plan *from);

/* How well the sets of workers that share a chunk can be decoded. */

/*
 * 1/sigma_min of the size x size matrix whose columns stand one behind the other in `columns`;
 * infinite if it is singular. Destroys the columns.
 */
double conditioning_of_columns(double *columns, uint32_t size);

/*
 * Over the sets of `parts` workers that share a chunk: the largest 1/sigma_min(R_S) and the median
 * (the lower one of an even number); parts >= 2. A set counts once for each chunk that it shares.
 * If there are too many, a sample of RANDOM_CONDITIONING: a random chunk, a random set of its
 * holders. decode is parts x workers, row-major; every chunk has at least `parts` holders.
 * Errors: NO_MEMORY.
 */
int conditioning_measure(const tarry_plan *plan, uint32_t parts, const double *decode,
                         uint64_t seed, tarry_conditioning *out);

/* Subsets of {0, .., n - 1} of a given size, as ascending lists of their members. */

/* How many subsets of `size` there are: n over size, or UINT64_MAX if that does not fit. */
uint64_t subsets_count(uint32_t n, uint32_t size);

/* The first subset in lexicographic order; size <= n. */
void subsets_first(uint32_t *members, uint32_t size);
/* Goes on to the next; false, with the last left as it is, if there is none. */
bool subsets_next(uint32_t *members, uint32_t size, uint32_t n);
/* Draws one, each with the same probability. */
void subsets_draw(random_stream *stream, uint32_t *members, uint32_t size, uint32_t n);

/* Spreads the columns of a decode matrix by descent, one worker's column at a time. */

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
