/* SPDX-License-Identifier: Apache-2.0 */
/* How a gradient of d numbers is cut into parts, and a coded part into stripes. */
#ifndef CODING_LAYOUT_H
#define CODING_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "coding/kernel.h"

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

/* Encoding and decoding of one stripe: the layout's arithmetic around a kernel. */

/*
 * z[x] = sum_i sum_k coefficients[i * parts + k] * gradients[i][k * part_length + x] over the
 * stripe: one pass over the inputs. gradients[i] (count of them, d numbers each) may be NULL where
 * its row of coefficients is zero. z points to the stripe's first number and has room for its
 * length. scratch: transfer_encode_scratch(count, parts) bytes, aligned for a pointer.
 */
void transfer_encode(const kernel *with, const layout *cut, uint32_t stripe,
                     const float *const *gradients, const float *coefficients, size_t count,
                     float *z, void *scratch);
size_t transfer_encode_scratch(size_t count, uint32_t parts);

/*
 * estimate[k * part_length + x] (+)= sum_j weights[k * count + j] * z[j][x] over the stripe, for
 * every part k: each z is read from memory once for all parts. z[j] points to the stripe's first
 * number. `add` says whether to add to the estimate (d numbers) or to overwrite the stripe.
 */
void transfer_decode(const kernel *with, const layout *cut, uint32_t stripe, const float *const *z,
                     const float *weights, size_t count, bool add, float *estimate);

/*
 * The same for the numbers first .. first + length - 1 of each part, which lie within it:
 * out[k * stride + x] = [out +] sum_j weights[k * count + j] * z[j][x] for x < length, as far as
 * number first + x exists in part k. z[j] and `out` point to what belongs to number `first`.
 */
void transfer_decode_range(const kernel *with, const layout *cut, size_t first, size_t length,
                           const float *const *z, const float *weights, size_t count,
                           kernel_mode mode, float *out, size_t stride);

#endif
