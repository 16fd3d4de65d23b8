/* SPDX-License-Identifier: Apache-2.0 */
/* What workers sent of one stripe, times their weights of the decode matrix. */
#ifndef RUNTIME_DECODE_H
#define RUNTIME_DECODE_H

#include <stdbool.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "plan/plan.h"

/*
 * Adds the stripes z[0..count-1] of the workers sender[0..count-1], each times `scale`, to every
 * part of the estimate (d numbers), or overwrites the stripe there. scratch: count * cut->parts
 * numbers.
 */
void decode_stripe(const kernel *kernels, const tarry_plan *plan, const layout *cut,
                   uint32_t stripe, const float *const *z, const uint32_t *sender, size_t count,
                   double scale, bool add, float *scratch, float *estimate);
/* The stripe of every part becomes zero. */
void decode_zero(const layout *cut, uint32_t stripe, float *estimate);

#endif
