/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The privacy loss of many steps: the sum of independent losses of one step, by Fourier transform.
 * The masses are tilted first, by e^(t loss), such that the losses that decide are the likely ones:
 * so they have a relative precision however small delta is, where untilted ones below 1e-13 would
 * be rounding.
 */
#ifndef PRIVACY_COMPOSED_H
#define PRIVACY_COMPOSED_H

#include "privacy/loss.h"

/* P's mass of the loss (first + i) * step is weight[i] e^(scale - tilt * loss); less finite losses
 * than these are left out of what lies below, and `infinite` has all above. INFINITY: some
 * number could not be computed; then there are no weights, or they mean nothing. */
typedef struct composed_loss {
    double step;
    int64_t first;
    size_t count;
    double *weight;
    double tilt, scale;
    double infinite;
} composed_loss;

/*
 * Which losses decide: those about the epsilon that goes with `delta`, or, where delta is 0, about
 * `epsilon`. Either way all that follows is an upper bound. cells: of the grid at most, a power of
 * two; more of them are tighter.
 */
typedef struct composed_aim {
    double delta, epsilon;
    size_t cells;
} composed_aim;

/* Errors: NO_MEMORY. */
int composed_loss_make(const loss_mechanism *mechanism, uint64_t steps, const composed_aim *aim,
                       const tarry_allocator *allocator, composed_loss *composed);
void composed_loss_free(composed_loss *composed, const tarry_allocator *allocator);

/* The least delta that the grid gives for epsilon >= 0, and the least epsilon for delta; INFINITY:
 * none. */
double composed_delta(const composed_loss *composed, double epsilon);
double composed_epsilon(const composed_loss *composed, double delta);

#endif
