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
        largest_apart = fmax(largest_apart, isnan(apart) ? INFINITY : apart);
        largest = fmax(largest, fabs(truth[i]));
        sum_apart += apart * apart;
        sum += truth[i] * truth[i];
    }
    *error = ratio(largest_apart, largest);
    *squared = isinf(largest_apart) ? INFINITY : ratio(sum_apart, sum);
}
