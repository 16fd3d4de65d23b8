/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The privacy loss of one step of the Gaussian mechanism on a Poisson sample, as probabilities on a
 * grid.
 *
 * With noise N(0, s^2) and sampling probability q the output is P or Q, of which one is N(0, s^2)
 * and the other (1 - q) N(0, s^2) + q N(1, s^2): an example is removed (P is the mixture) or added
 * (Q is). The privacy loss is log P/Q at an output that P draws.
 */
#ifndef PRIVACY_LOSS_H
#define PRIVACY_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

typedef enum loss_direction { LOSS_REMOVED, LOSS_ADDED } loss_direction;

typedef struct loss_mechanism {
    double noise;  /* s > 0 */
    double sample; /* q, 0 < q <= 1 */
    loss_direction direction;
} loss_mechanism;

/* delta(epsilon) = P[L > epsilon] - e^epsilon Q[L > epsilon], the least delta of one step; without
 * cancellation in the upper tail. */
double loss_delta(const loss_mechanism *mechanism, double epsilon);

/* delta(epsilon) + e^epsilon - 1, without cancellation in the lower tail. */
double loss_lower(const loss_mechanism *mechanism, double epsilon);

/*
 * The loss is (first + i) * step with probability mass[i], and infinite with the probability
 * `infinite`: all that follows from it is an upper bound for the mechanism. If a number could not
 * be computed `infinite` is INFINITY: then nothing follows.
 */
typedef struct loss_grid {
    double step;
    int64_t first;
    size_t count;
    double *mass;
    double infinite;
} loss_grid;

/*
 * The grid `connects the dots` of the convex curve of delta over e^epsilon at multiples of `step`
 * from `least` to `most`, least < 0 < most (Doroshenko et al., arXiv 2207.04380, algorithm 1): of
 * all distributions on the grid that are no better than the mechanism, the best. The masses are the
 * allocator's, to be released by loss_grid_free. Errors: NO_MEMORY.
 */
int loss_grid_make(const loss_mechanism *mechanism, double step, double least, double most,
                   const tarry_allocator *allocator, loss_grid *grid);
void loss_grid_free(loss_grid *grid, const tarry_allocator *allocator);

/* Losses beyond which at most so much is left: loss_delta(most) <= tail, loss_lower(least) <= tail;
 * least < 0 < most. */
void loss_range(const loss_mechanism *mechanism, double tail, double *least, double *most);

/* The cumulant generating function of the finite losses: log sum mass e^(t loss), and its first two
 * derivatives. */
typedef struct loss_cumulants {
    double value, mean, variance;
} loss_cumulants;

loss_cumulants loss_cumulants_at(const loss_grid *grid, double t);

#endif
