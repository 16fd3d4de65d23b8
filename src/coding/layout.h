/* SPDX-License-Identifier: Apache-2.0 */
/* How a gradient of d numbers is cut into parts, and a coded part into stripes. */
#ifndef CODING_LAYOUT_H
#define CODING_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_LINE = 16 }; /* numbers of a cache line */

/*
 * Part k of a gradient is its numbers k * part_length .. min((k + 1) * part_length, d) - 1: the
 * last part may be shorter, even empty; it counts as padded with zeros. Stripe s of a part is s *
 * stripe_length .. min((s + 1) * stripe_length, part_length) - 1.
 */
typedef struct layout {
    size_t dimension; /* d >= 1 */
    uint32_t parts;   /* l >= 1 */
    size_t part_length;
    size_t stripe_length; /* >= 1; may be longer than a part */
    uint32_t stripes;
} layout;

/* All three >= 1; the stripes must number at most UINT32_MAX. */
layout layout_make(size_t dimension, uint32_t parts, size_t stripe_length);

/* First coordinate of `stripe` within a part, and how many it has. */
size_t layout_stripe_start(const layout *cut, uint32_t stripe);
size_t layout_stripe_length(const layout *cut, uint32_t stripe);
/* How many numbers of `stripe` exist in `part` of the gradient (the rest is padding). */
size_t layout_present(const layout *cut, uint32_t part, uint32_t stripe);
/* The same of the numbers first .. first + length - 1 of a part, which lie within it. */
size_t layout_exists(const layout *cut, uint32_t part, size_t first, size_t length);

/*
 * Whole numbers of each part may be done while the rest of them is not: what is behind the first
 * `whole` numbers of each part of a gradient of d numbers, in l parts, is a gradient of d - l *
 * whole numbers in l parts, cut as any other. layout_stand: the most of them, up to `whole`, behind
 * which that is so, in steps of 16, as of a cache line.
 */
size_t layout_stand(const layout *cut, size_t whole);

#endif
