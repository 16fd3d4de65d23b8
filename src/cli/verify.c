/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify.h"

#include <math.h>

static double ratio(double part, double whole)
{
    return part == 0 ? 0 : part / whole;
}

void verify_estimate(const double *truth, const float *estimate, size_t count, double *error,
                     double *squared)
{
    double largest = 0, largest_apart = 0, sum = 0, sum_apart = 0;
    for (size_t i = 0; i < count; i++) {
        double apart = fabs((double)estimate[i] - truth[i]);
        /* Comparisons with NaN are false: it must not pass as the smaller one. */
        largest_apart = apart <= largest_apart ? largest_apart : apart;
        largest = fmax(largest, fabs(truth[i]));
        sum_apart += apart * apart;
        sum += truth[i] * truth[i];
    }
    *error = ratio(largest_apart, largest);
    *squared = ratio(sum_apart, sum);
}
