/* SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <math.h>

#include "privacy/accountant.h"
#include "privacy/complex_number.h"
#include "test.h"

enum { MOST = 256 };

static void fill(double complex *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = CMPLX(sin((double)(i * i + 1)), cos(3.0 * (double)i));
}

/* By its definition. */
static double complex slow(const double complex *numbers, size_t count, size_t k)
{
    double complex sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += numbers[j] * cexp(-2 * M_PI * I * (double)(j * k % count) / (double)count);
    return sum;
}

TEST(it_is_the_sum_that_defines_it_and_has_an_inverse)
{
    for (size_t count = 1; count <= MOST; count *= 2) {
        double complex numbers[MOST], there[MOST], roots[MOST / 2];
        fill(numbers, count);
        fill(there, count);
        fourier_roots(roots, count);
        fourier_transform(there, count, roots, false);
        for (size_t k = 0; k < count; k++)
            assert_true(cabs(there[k] - slow(numbers, count, k)) < 1e-12 * (double)count);
        fourier_transform(there, count, roots, true);
        for (size_t i = 0; i < count; i++)
            assert_true(cabs(there[i] - numbers[i]) < 1e-14 * (double)count);
    }
}
