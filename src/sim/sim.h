/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/plan.h>
#include <tarry/server.h>

#include "plan/plan.h"

/*
 * Real gradients for a simulated round: an original chunk's is a vector of independent normal
 * numbers from (seed, round, chunk), and parts of one add up to it (sim.h). Every worker
 * that has a chunk's gradient has the same one, so there is one of each. Sums are those of the
 * reference kernel, the same on every machine.
 */

typedef struct vectors vectors;
/* The same as vectors_encode with the coefficients that the worker would find for psi, as in
 * TARRY_MESSAGE_SIGNAL. Errors: NUMERICAL. */
int vectors_encode_for(vectors *state, uint64_t round, uint32_t worker, uint32_t stripe,
                       const uint64_t *psi, const uint64_t *stale);
/* The estimate's stripe becomes zero; the worker's part of it in `attempt` is added, `scale` times,
 * in the form in which it was sent. */
void vectors_clear(vectors *state, uint32_t stripe);
void vectors_combine(vectors *state, uint32_t attempt, uint32_t worker, uint32_t stripe,
                     double scale);

/*
 * Real gradients of parts of an original chunk, which add up however it is cut: a part's is the
 * difference of a Brownian bridge at its ends. The bridge begins at 0 and ends at the chunk's
 * gradient, and is drawn by halving (P. Levy's construction), so that it can be had anywhere
 * without being drawn everywhere.
 */

/* The gradient of original chunk `origin` in `round`: `dimension` normal numbers. */
void span_vector_whole(uint64_t seed, uint64_t round, uint32_t origin, size_t dimension,
                       float *gradient);

/* Adds the span's to sum[0..dimension-1]. scratch: 2 x dimension. */
void span_vector_add(uint64_t seed, uint64_t round, tarry_span span, size_t dimension,
                     double *scratch, double *sum);

#endif
