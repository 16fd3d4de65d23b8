/* SPDX-License-Identifier: Apache-2.0 */
/* A standard normal far out in its tails, where differences of its distribution function are all
 * rounding. */
#ifndef PRIVACY_NORMAL_H
#define PRIVACY_NORMAL_H

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

#endif
