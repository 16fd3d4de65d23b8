/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sum among ranks is cut: into parts, as tarry_engine_sum has it; each part into stripes; and
 * each stripe into a share per member, the same numbers of each part, which that member decodes and
 * gives to all. Shares are of whole lines of 16 numbers and differ by one line at most.
 */
#ifndef MPI_CUT_H
#define MPI_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/engine.h>

typedef struct cut {
    size_t dimension, part_length; /* of what is to be summed */
    size_t whole, stride;          /* numbers of each part that stand before it, and from part to
                                      part of the sum */
    uint32_t parts, members;
    size_t stripe_length;
    uint32_t stripes;
} cut;

/* Numbers first .. first + length - 1 of a part, from the first one that is summed on. */
typedef struct cut_share {
    size_t first, length;
} cut_share;

/* Stripes of which a share is at most `most` numbers. False: `whole` can't stand. */
bool cut_make(const tarry_engine_sum *sum, uint32_t members, size_t most, cut *made);
cut_share cut_share_of(const cut *self, uint32_t stripe, uint32_t place);
/* How many of a share's numbers exist in a part: the rest is padding. */
size_t cut_exists(const cut *self, uint32_t part, cut_share of);
/* The same in all parts. */
size_t cut_numbers(const cut *self, cut_share of);
/* Where a share of a part begins in the sum. */
size_t cut_place(const cut *self, uint32_t part, cut_share of);

/* out[x] = sum_t weights[t] in[t][x], x < length: the terms in their order, each rounded to float.
 */
void cut_combine(float *out, const float *const *in, const float *weights, uint32_t terms,
                 size_t length);
/* out[x] += weight in[x], x < length, rounded to float twice. */
void cut_add(float *restrict out, const float *restrict in, float weight, size_t length);

#endif
