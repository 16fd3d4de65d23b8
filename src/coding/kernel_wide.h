/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-pass weighted sum, for a file that has defined the operations of its instruction set on a
 * line, the 16 floats of a cache line:
 *
 *   WIDE          what precedes a function that uses the instruction set
 *   WIDE_INLINE   the same for one that must be inlined
 *   line          16 floats in registers
 *   line_zero()                      16 zeros
 *   line_load(p), line_store(p, l)   any alignment
 *   line_stream(p, l)                p at a cache line; passes the cache by
 *   line_add_scaled(l, c, p)         l + c * line_load(p), rounded once
 *   line_mask, line_first(n)         names the first n <= 16 floats
 *   line_load_first(p, m), line_store_first(p, m, l), line_add_scaled_first(l, c, p, m)
 *                                    touch only these, and take the others as zero
 *
 * Four lines of the sum are held in registers while the inputs pass. Processors follow only so many
 * sequential streams at once, so that more inputs than that are summed in groups over a block of
 * the output, whose partial sum stays in the cache. No sum depends on these sizes: every number is
 * out + c_0 x_0 + c_1 x_1 + ..., rounded to float after each term.
 */
#ifndef CODING_KERNEL_WIDE_H
#define CODING_KERNEL_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coding/kernel.h"

enum {
    LINE = 16,    /* floats of a cache line */
    GROUP = 12,   /* inputs that are read side by side at most: add_terms has as many */
    BLOCK = 8192, /* floats of the output over which groups take turns */
};

/* What is summed: inputs, beginning at in[k] + start. */
typedef struct terms {
    const float *const *in;
    const float *coefficients;
    size_t inputs;
    size_t start;
} terms;

typedef struct lines {
    line a, b, c, d;
} lines;

/* lines + the k-th term. */
static WIDE_INLINE lines add_term(lines value, const terms *sum, size_t k, size_t x)
{
    const float *in = sum->in[k] + sum->start + x;
    float coefficient = sum->coefficients[k];
    value.a = line_add_scaled(value.a, coefficient, in);
    value.b = line_add_scaled(value.b, coefficient, in + LINE);
    value.c = line_add_scaled(value.c, coefficient, in + 2 * LINE);
    value.d = line_add_scaled(value.d, coefficient, in + 3 * LINE);
    return value;
}

/* lines + the terms, GROUP at most. No loop: processors tell streams apart by the instruction that
 * loads from them, so each input has one of its own (up to 1.2 times faster). */
static WIDE_INLINE lines add_terms(lines value, const terms *sum, size_t x)
{
    size_t inputs = sum->inputs;
    if (inputs > 0)
        value = add_term(value, sum, 0, x);
    if (inputs > 1)
        value = add_term(value, sum, 1, x);
    if (inputs > 2)
        value = add_term(value, sum, 2, x);
    if (inputs > 3)
        value = add_term(value, sum, 3, x);
    if (inputs > 4)
        value = add_term(value, sum, 4, x);
    if (inputs > 5)
        value = add_term(value, sum, 5, x);
    if (inputs > 6)
        value = add_term(value, sum, 6, x);
    if (inputs > 7)
        value = add_term(value, sum, 7, x);
    if (inputs > 8)
        value = add_term(value, sum, 8, x);
    if (inputs > 9)
        value = add_term(value, sum, 9, x);
    if (inputs > 10)
        value = add_term(value, sum, 10, x);
    if (inputs > 11)
        value = add_term(value, sum, 11, x);
    return value;
}

/* to[x..] = [from[x..] +] the terms, four lines. */
static WIDE_INLINE void sum_lines(float *to, const float *from, const terms *sum, size_t x,
                                  bool stream)
{
    lines value = {line_zero(), line_zero(), line_zero(), line_zero()};
    if (from != NULL) {
        value.a = line_load(from + x);
        value.b = line_load(from + x + LINE);
        value.c = line_load(from + x + 2 * LINE);
        value.d = line_load(from + x + 3 * LINE);
    }
    value = add_terms(value, sum, x);
    if (stream) {
        line_stream(to + x, value.a);
        line_stream(to + x + LINE, value.b);
        line_stream(to + x + 2 * LINE, value.c);
        line_stream(to + x + 3 * LINE, value.d);
    } else {
        line_store(to + x, value.a);
        line_store(to + x + LINE, value.b);
        line_store(to + x + 2 * LINE, value.c);
        line_store(to + x + 3 * LINE, value.d);
    }
}

/* The same for count <= 16 floats. */
static WIDE_INLINE void sum_first(float *to, const float *from, const terms *sum, size_t x,
                                  size_t count)
{
    line_mask first = line_first(count);
    line a = from != NULL ? line_load_first(from + x, first) : line_zero();
    for (size_t k = 0; k < sum->inputs; k++)
        a = line_add_scaled_first(a, sum->coefficients[k], sum->in[k] + sum->start + x, first);
    line_store_first(to + x, first, a);
}

/* to = [from +] the terms, over `length` floats. */
WIDE static void sum_range(float *to, const float *from, const terms *sum, size_t length,
                           bool stream)
{
    size_t x = 0;
    if (stream) { /* up to a cache line */
        x = (LINE - (uintptr_t)to / sizeof(float) % LINE) % LINE;
        x = x < length ? x : length;
        sum_first(to, from, sum, 0, x);
    }
    for (; length - x >= 4 * LINE; x += 4 * LINE)
        sum_lines(to, from, sum, x, stream);
    for (; length - x >= LINE; x += LINE)
        sum_first(to, from, sum, x, LINE);
    sum_first(to, from, sum, x, length - x);
}

/* to[..length - 1] = [from +] the terms, in groups that are as equal as they can be. */
WIDE static void sum_groups(float *to, const float *from, const terms *sum, size_t length,
                            bool stream)
{
    _Alignas(64) float partial[BLOCK];
    terms group = *sum;
    size_t left = sum->inputs;
    for (size_t groups = (left + GROUP - 1) / GROUP; groups > 0; groups--) {
        bool last = groups == 1;
        group.inputs = (left + groups - 1) / groups;
        sum_range(last ? to : partial, from, &group, length, last && stream);
        from = partial;
        left -= group.inputs;
        group.in += group.inputs;
        group.coefficients += group.inputs;
    }
}

WIDE static void sum_all(float *out, const float *const *in, const float *coefficients,
                         size_t inputs, size_t length, kernel_mode mode)
{
    terms sum = {.in = in, .coefficients = coefficients, .inputs = inputs};
    const float *from = mode == KERNEL_ADD ? out : NULL;
    bool stream = mode == KERNEL_STREAM;
    if (inputs <= GROUP) {
        sum_range(out, from, &sum, length, stream);
        return;
    }
    for (size_t count; sum.start < length; sum.start += count) {
        count = length - sum.start < BLOCK ? length - sum.start : BLOCK;
        sum_groups(out + sum.start, from != NULL ? from + sum.start : NULL, &sum, count, stream);
    }
}

#endif
