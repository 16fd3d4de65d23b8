/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sum among ranks is cut: into parts, as tarry_engine_sum has it; each part into stripes; and
 * each stripe into a share per member, the same numbers of each part, which that member decodes and
 * gives to all. Shares are of whole lines of 16 numbers and differ by one line at most.
 */
#ifndef MPI_CUT_H
#define MPI_CUT_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/engine.h>

enum { CUT_LINE = 16, CUT_BLOCK = 1024 };

typedef struct cut {
    size_t dimension, part_length;
    uint32_t parts, members;
    size_t stripe_length;
    uint32_t stripes;
} cut;

/* Numbers first .. first + length - 1 of a part. */
typedef struct cut_share {
    size_t first, length;
} cut_share;

static inline size_t cut_smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* Stripes of which a share is at most `most` numbers. */
static inline void cut_make(const tarry_engine_sum *sum, uint32_t members, size_t most, cut *made)
{
    size_t length = most / CUT_LINE * CUT_LINE * members;
    *made = (cut){
        .dimension = sum->dimension,
        .part_length = (sum->dimension - 1) / sum->parts + 1,
        .parts = sum->parts,
        .members = members,
        .stripe_length = length,
    };
    made->stripes = (uint32_t)((made->part_length - 1) / length + 1);
}

/* Lines before the share at `place`: the first lines % members shares have one more. */
static inline size_t cut_lines_before(size_t lines, uint32_t members, uint32_t place)
{
    return lines / members * place + cut_smaller(lines % members, place);
}

static inline cut_share cut_share_of(const cut *self, uint32_t stripe, uint32_t place)
{
    size_t start = stripe * self->stripe_length;
    size_t length = cut_smaller(self->stripe_length, self->part_length - start);
    size_t lines = (length + CUT_LINE - 1) / CUT_LINE;
    size_t begin = cut_smaller(cut_lines_before(lines, self->members, place) * CUT_LINE, length);
    size_t end = cut_smaller(cut_lines_before(lines, self->members, place + 1) * CUT_LINE, length);
    return (cut_share){start + begin, end - begin};
}

/* How many of a share's numbers exist in a part: the rest is padding. */
static inline size_t cut_exists(const cut *self, uint32_t part, cut_share of)
{
    size_t place = part * self->part_length + of.first;
    return place < self->dimension ? cut_smaller(of.length, self->dimension - place) : 0;
}

/* The same in all parts. */
static inline size_t cut_numbers(const cut *self, cut_share of)
{
    size_t numbers = 0;
    for (uint32_t part = 0; part < self->parts; part++)
        numbers += cut_exists(self, part, of);
    return numbers;
}

/* Where a share of a part begins in the sum. */
static inline size_t cut_place(const cut *self, uint32_t part, cut_share of)
{
    return part * self->part_length + of.first;
}

/* out[x] += weight in[x], x < length, rounded to float twice. */
static inline void cut_add(float *restrict out, const float *restrict in, float weight,
                           size_t length)
{
    for (size_t x = 0; x < length; x++)
        out[x] += weight * in[x];
}

/* out[x] = sum_t weights[t] in[t][x], x < length: the terms in their order, each rounded to float.
 * A block at a time, which stays in the first cache. */
static inline void cut_combine(float *out, const float *const *in, const float *weights,
                               uint32_t terms, size_t length)
{
    for (size_t begin = 0; begin < length; begin += CUT_BLOCK) {
        size_t some = cut_smaller(CUT_BLOCK, length - begin);
        for (size_t x = begin; x < begin + some; x++)
            out[x] = terms > 0 ? weights[0] * in[0][x] : 0;
        for (uint32_t t = 1; t < terms; t++)
            cut_add(out + begin, in[t] + begin, weights[t], some);
    }
}

#endif
