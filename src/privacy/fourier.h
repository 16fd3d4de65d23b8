/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIVACY_FOURIER_H
#define PRIVACY_FOURIER_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * numbers[0..count-1] become their discrete Fourier transform, sum_j numbers[j] e^(-2 pi i j k /
 * count), or with `inverse` what they are the transform of. count is a power of two; roots has room
 * for count / 2 numbers.
 */
void fourier_roots(double complex *roots, size_t count);
void fourier_transform(double complex *numbers, size_t count, const double complex *roots,
                       bool inverse);

#endif
