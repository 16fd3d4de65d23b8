/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/normal.h"

#include <math.h>

/* exp(sign x^2) with the rounding of x^2 put back: that of a large square would be a large relative
 * error. */
static double exp_square(double x, double sign)
{
    double square = x * x;
    double rounded = fma(x, x, -square);
    return exp(sign * square) * (1 + sign * rounded);
}

double normal_density(double x)
{
    return exp_square(x * M_SQRT1_2, -1) * (M_SQRT1_2 * M_2_SQRTPI / 2);
}

double normal_tail(double x)
{
    return erfc(x * M_SQRT1_2) / 2;
}

/* exp(x^2) erfc(x). Beyond 25 erfc is near underflow; six terms of its asymptotic series are exact
 * to the last place there (Abramowitz and Stegun, 7.1.23). */
static double scaled_erfc(double x)
{
    if (x < 25)
        return exp_square(x, 1) * erfc(x);
    double term = 1 / (2 * x * x), sum = 1;
    for (int i = 5; i >= 1; i--)
        sum = 1 - (2 * i - 1) * term * sum;
    return sum * M_2_SQRTPI / (2 * x);
}

double normal_mills(double x)
{
    return scaled_erfc(x * M_SQRT1_2) / (M_2_SQRTPI * M_SQRT1_2);
}

double normal_log_tail(double x)
{
    if (x < 5)
        return log(normal_tail(x));
    return log(normal_mills(x)) - x * x / 2 - log(2 * M_PI) / 2;
}
