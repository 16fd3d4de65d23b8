/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rounding lost of a worker's coded part, stripe by stripe: the residual e. A part z is sent
 * as Q(z + e), and leaves z + e - Q(z + e). Which of the two counts is known later: what was left
 * waits until it is committed. Until then, and if it never is, the residual is e.
 *
 * Over any encodings of a stripe that are committed, the sum of what was sent is that of the parts
 * z, plus the residual before them, less that after them (as far as float32 adds exactly). A number
 * of z + e that is not finite leaves 0.
 */
#ifndef COMPRESS_RESIDUALS_H
#define COMPRESS_RESIDUALS_H

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "compress/compress.h"

typedef struct residuals residuals;

/* Of a part of `length` numbers in stripes of `stripe_length` (the last one may be shorter), all
 * zero; takes two vectors of as many numbers. Errors: NO_MEMORY. */
int residuals_create(size_t length, size_t stripe_length, const tarry_allocator *allocator,
                     residuals **made);
void residuals_free(residuals *self); /* NULL is allowed */

/* Writes Q(z + e) of the stripe, compress_bytes of its numbers in the form, which is that of the
 * stripe, and may be another one each time; what is left waits, in the place of what waited before.
 * z: the stripe's numbers. */
void residuals_encode(residuals *self, uint32_t stripe, compress_form form, const float *z,
                      uint64_t key, uint8_t *bytes);
/* The same without rounding: gives back z + e itself, which lies here until the stripe is encoded
 * anew, and nothing is left. */
const float *residuals_flush(residuals *self, uint32_t stripe, const float *z);
/* What waits is the residual from now on. Something has to. */
void residuals_commit(residuals *self, uint32_t stripe);
/* The residual is zero from now on, and nothing waits. */
void residuals_void(residuals *self, uint32_t stripe);

/* Stripes whose residual is not zero. */
uint32_t residuals_count(const residuals *self);
/* The residual of the stripe; NULL: it is zero. */
const float *residuals_of(const residuals *self, uint32_t stripe);

#endif
