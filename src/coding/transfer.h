/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of one stripe: the layout's arithmetic around a kernel. */
#ifndef CODING_TRANSFER_H
#define CODING_TRANSFER_H

#include "coding/kernel.h"
#include "coding/layout.h"

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
