/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIVACY_ACCOUNTANT_H
#define PRIVACY_ACCOUNTANT_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

/*
 * numbers[0..count-1] become their discrete Fourier transform, sum_j numbers[j] e^(-2 pi i j k /
 * count), or with `inverse` what they are the transform of. count is a power of two; roots has room
 * for count / 2 numbers.
 */
void fourier_roots(double complex *roots, size_t count);
void fourier_transform(double complex *numbers, size_t count, const double complex *roots,
                       bool inverse);

/*
 * The privacy loss of one step of the Gaussian mechanism on a Poisson sample, as probabilities on a
 * grid.
 *
 * With noise N(0, s^2) and sampling probability q the output is P or Q, of which one is N(0, s^2)
 * and the other (1 - q) N(0, s^2) + q N(1, s^2): an example is removed (P is the mixture) or added
 * (Q is). The privacy loss is log P/Q at an output that P draws.
 */

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

/*
 * The privacy loss of many steps: the sum of independent losses of one step, by Fourier transform.
 * The masses are tilted first, by e^(t loss), such that the losses that decide are the likely ones:
 * so they have a relative precision however small delta is, where untilted ones below 1e-13 would
 * be rounding.
 */

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

/* A standard normal far out in its tails, where differences of its distribution function are all
 * rounding. */

/* exp(-x^2 / 2) / sqrt(2 pi), with a relative error of a few units in the last place wherever it is
 * not subnormal. */
double normal_density(double x);

/* P[X > x]. */
double normal_tail(double x);

/* log P[X > x]; finite for every finite x. */
double normal_log_tail(double x);

/* Mills' ratio: P[X > x] over the density at x. Infinite where that is too large for a double (x
 * below -38). */
double normal_mills(double x);

/*
 * Renyi differential privacy of the Gaussian mechanism on Poisson samples (Mironov, Talwar, Zhang,
 * arXiv 1908.10530), and what epsilon follows from it (Canonne, Kamath, Steinke, arXiv 2004.00010,
 * proposition 12).
 */

/*
 * The Renyi divergence of order alpha > 1 between a step's outputs with and without one example,
 * whichever is larger: noise `noise` times the sensitivity, each example sampled with probability
 * `sample`, 0..1. An upper bound: rounding is added where it counts, and a fractional order whose
 * series has too much of it is bounded by its whole neighbours. INFINITY: no bound.
 */
double rdp_of_order(double noise, double sample, double alpha);

enum { RDP_ORDERS = 99 + 52 + 24 };

/* The divergences of one step at a fixed set of orders, each worked out when it is first needed. */
typedef struct rdp_curve {
    double noise, sample;
    double divergence[RDP_ORDERS]; /* NaN: not yet */
} rdp_curve;

void rdp_curve_begin(rdp_curve *curve, double noise, double sample);
/* As rdp_epsilon, many times for different steps. */
double rdp_curve_epsilon(rdp_curve *curve, uint64_t steps, double delta);

/* The least epsilon, over a fixed set of orders, such that `steps` steps are (epsilon,
 * delta)-private; 0 < delta < 1. INFINITY if no order gives one. */
double rdp_epsilon(double noise, double sample, uint64_t steps, double delta);

/* The least delta in the same way, at most 1. */
double rdp_delta(double noise, double sample, uint64_t steps, double epsilon);

#endif
