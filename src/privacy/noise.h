/* SPDX-License-Identifier: Apache-2.0 */
/* Gaussian noise on sums: what a release of one is made of. */
#ifndef PRIVACY_NOISE_H
#define PRIVACY_NOISE_H

#include "privacy/keystream.h"

/*
 * numbers[i] += a normal number of that deviation (> 0), for i = 0..count-1, all independent; then
 * it is rounded to noise_grid, which hides the last bits of both, and to float32. The same key and
 * release give the same noise: use each release of a key once. 0, or -1 without memory, after which
 * the numbers are of no use.
 */
int noise_add(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t release, double deviation,
              float *numbers, size_t count);

/* What sums with noise are multiples of: the largest power of two up to deviation / 256. */
double noise_grid(double deviation);

#endif
