/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real gradients of parts of an original chunk, which add up however it is cut: a part's is the
 * difference of a Brownian bridge at its ends. The bridge begins at 0 and ends at the chunk's
 * gradient, and is drawn by halving (P. Levy's construction), so that it can be had anywhere
 * without being drawn everywhere.
 */
#ifndef SIM_SPAN_VECTOR_H
#define SIM_SPAN_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/plan.h>

/* The gradient of original chunk `origin` in `round`: `dimension` normal numbers. */
void span_vector_whole(uint64_t seed, uint64_t round, uint32_t origin, size_t dimension,
                       float *gradient);

/* Adds the span's to sum[0..dimension-1]. scratch: 2 x dimension. */
void span_vector_add(uint64_t seed, uint64_t round, tarry_span span, size_t dimension,
                     double *scratch, double *sum);

#endif
