/* SPDX-License-Identifier: Apache-2.0 */
/* Cooley and Tukey's transform. The libraries that do it in double are not there to link (KissFFT
 * is packaged for float), or their licence is not ours to take on (FFTW). */
#include "privacy/fourier.h"

#include <math.h>

#include "privacy/complex_number.h"

void fourier_roots(double complex *roots, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        double angle = -2 * M_PI * (double)i / (double)count;
        roots[i] = CMPLX(cos(angle), sin(angle));
    }
}

static void reverse_bits(double complex *numbers, size_t count)
{
    for (size_t i = 1, j = 0; i < count; i++) {
        size_t bit = count >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex kept = numbers[i];
            numbers[i] = numbers[j];
            numbers[j] = kept;
        }
    }
}

void fourier_transform(double complex *numbers, size_t count, const double complex *roots,
                       bool inverse)
{
    reverse_bits(numbers, count);
    for (size_t half = 1; half < count; half *= 2) {
        size_t stride = count / (2 * half);
        for (size_t begin = 0; begin < count; begin += 2 * half) {
            for (size_t k = 0; k < half; k++) {
                double complex root = inverse ? conj(roots[k * stride]) : roots[k * stride];
                double complex odd = complex_product(numbers[begin + half + k], root);
                double complex even = numbers[begin + k];
                numbers[begin + k] = even + odd;
                numbers[begin + half + k] = even - odd;
            }
        }
    }
    for (size_t i = 0; inverse && i < count; i++)
        numbers[i] /= (double)count;
}
