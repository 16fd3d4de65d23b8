/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/verify.h"

#include <float.h>
#include <math.h>

/* Below the least normal float32 an estimate has few digits or none, however well it is summed. */
static double held(double number)
{
    return fabs(number) < (double)FLT_MIN ? 0 : number;
}

static double ratio(double part, double whole)
{
    return part == 0 ? 0 : part / whole;
}

void verify_estimate(const double *truth, const float *estimate, size_t count, double *error,
                     double *squared)
{
    double largest = 0, largest_apart = 0, sum = 0, sum_apart = 0;
    for (size_t i = 0; i < count; i++) {
        double number = held(truth[i]);
        double apart = fabs(held((double)estimate[i]) - number);
        largest_apart = fmax(largest_apart, isnan(apart) ? INFINITY : apart);
        largest = fmax(largest, fabs(number));
        sum_apart += apart * apart;
        sum += number * number;
    }
    *error = ratio(largest_apart, largest);
    *squared = isinf(largest_apart) ? INFINITY : ratio(sum_apart, sum);
}
