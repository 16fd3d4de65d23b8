/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of numbers in a sum (compress/compress.h): each number of a coded part is rounded once
 * on its way to the member that sums it, and each of the sum once on its way back. What is a
 * member's own is not on the way to it; the sum is, at all members, what is sent of it.
 */
#ifndef ENGINE_SUM_FORM_H
#define ENGINE_SUM_FORM_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/engine.h>
#include <tarry/sum_form.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "compress/compress.h"

typedef struct sum_forms {
    compress_form up, down; /* of coded parts, and of the sum: of a whole part */
    uint64_t seed, step;
    uint32_t worker; /* that rounds */
} sum_forms;

/* Those of a sum of `count` members, by one of them; one alone sends nothing. Errors: ARGUMENT (a
 * form with feedback, or one of several parts). */
int sum_forms_of(const tarry_engine_sum *sum, uint32_t count, uint32_t worker, sum_forms *forms);

/* The form of numbers first .. first + count - 1 of a part of `length`. */
compress_form sum_form_of(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                          size_t count);
static inline bool sum_form_rounds(const sum_forms *forms, tarry_way way)
{
    return (way == TARRY_WAY_UP ? &forms->up : &forms->down)->kind != TARRY_COMPRESS_NONE;
}

/* Writes numbers from `first` on, of a part of `length`, as they are sent: by the seed, the step,
 * the worker and the place, so that an attempt that is made again, or a run that is resumed, rounds
 * in the same way. */
void sum_form_encode(const sum_forms *forms, tarry_way way, size_t length, size_t first,
                     size_t count, const float *numbers, uint8_t *bytes);
/* The numbers as they come. */
void sum_form_decode(compress_form form, const uint8_t *bytes, size_t count, float *numbers);

/*
 * Direct reduce-scatter and all-gather of coded sums: who sums which numbers, and how.
 *
 * A sum is cut as a gradient is (coding/layout.h): into parts, and these into stripes, which are
 * summed one after the other. Of each stripe of each part every member owns a share, the same
 * numbers in all parts. It gets these numbers of the coded parts of all members, decodes them, and
 * gives its share of the sum to all. So a member sends (n - 1) / n of its coded part, d / l
 * numbers, and n - 1 times its share of d numbers.
 */

/* Numbers first .. first + length - 1 of a part. */
typedef struct share {
    size_t first;
    size_t length; /* may be 0 */
} share;

/* The share of the member at `place` of `count` in a stripe. Shares lie in the order of members,
 * begin at multiples of 16 numbers from the stripe's first one, and differ by at most 16 numbers.
 */
share share_of(const layout *cut, uint32_t stripe, uint32_t count, uint32_t place);
/* The longest one of any stripe. */
size_t share_most(const layout *cut, uint32_t count);
/* How many numbers of the sum it has: those of all parts, without the padding. */
size_t share_numbers(const layout *cut, share of);

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
