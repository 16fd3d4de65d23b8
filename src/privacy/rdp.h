/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renyi differential privacy of the Gaussian mechanism on Poisson samples (Mironov, Talwar, Zhang,
 * arXiv 1908.10530), and what epsilon follows from it (Canonne, Kamath, Steinke, arXiv 2004.00010,
 * proposition 12).
 */
#ifndef PRIVACY_RDP_H
#define PRIVACY_RDP_H

#include <stdint.h>

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
