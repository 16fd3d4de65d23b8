/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIVACY_COMPLEX_NUMBER_H
#define PRIVACY_COMPLEX_NUMBER_H

#include <complex.h>

/* C11's, which glibc's header gives to GCC alone. */
#ifndef CMPLX
#define CMPLX(real, imaginary) __builtin_complex((double)(real), (double)(imaginary))
#endif

/* a b, without the care for infinities that C's own product takes. */
static inline double complex complex_product(double complex a, double complex b)
{
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}

#endif
