/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct reduce-scatter and all-gather of coded sums: who sums which numbers, and how.
 *
 * A sum is cut as a gradient is (coding/layout.h): into parts, and these into stripes, which are
 * summed one after the other. Of each stripe of each part every member owns a share, the same
 * numbers in all parts. It gets these numbers of the coded parts of all members, decodes them, and
 * gives its share of the sum to all. So a member sends (n - 1) / n of its coded part, d / l
 * numbers, and n - 1 times its share of d numbers.
 */
#ifndef ENGINE_SHARE_H
#define ENGINE_SHARE_H

#include <tarry/engine.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "route/route.h"

typedef route_span share; /* of the numbers of a part */

/* The share of the member at `place` of `count` in a stripe. Shares lie in the order of members,
 * begin at multiples of 16 numbers from the stripe's first one, and differ by at most 16 numbers.
 */
share share_of(const layout *cut, uint32_t stripe, uint32_t count, uint32_t place);
/* The longest one of any stripe. */
size_t share_most(const layout *cut, uint32_t count);
/* How many numbers of the sum it has: those of all parts, without the padding. */
size_t share_numbers(const layout *cut, share of);

/* What is left to be summed of a sum: what is behind its first `whole` numbers of each part, as a
 * sum of its own whose parts are `stride` numbers from each other in `sum`. Errors: ARGUMENT
 * (`whole`). */
int share_rest(const tarry_engine_sum *asked, tarry_engine_sum *rest, size_t *stride);

/*
 * Sums which coded parts with which weights: those of the members that have one. `rows` is l x
 * terms, row-major, and `places` says whose they are.
 */
typedef struct share_terms {
    uint32_t count; /* of members with a coded part */
    uint32_t *places;
    float *rows;
} share_terms;

/* Leaves the members without a coded part (has[i] false) out of the weights of a sum of `count`
 * members. terms->places has room for `count`, terms->rows for l x count numbers. */
void share_terms_set(share_terms *terms, const float *weights, uint32_t parts, uint32_t count,
                     const bool *has);

/*
 * Decodes a share: out[k * stride + x] = sum_i weights[k][i] * z[i][x] for all parts k and the
 * share's numbers x, as far as they exist in part k; the terms are added in the order of members,
 * each rounded to float, so that no cut changes a bit. z[t] points to the share's first number in
 * the coded part of member places[t]. `mode` is SET or STREAM.
 */
void share_decode(const kernel *with, const layout *cut, share of, const share_terms *terms,
                  const float *const *z, kernel_mode mode, float *out, size_t stride);

#endif
