/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/summary.h"

#include <math.h>

#include "base/quantile.h"

summary summary_of(double *values, size_t count)
{
    summary of = {.count = count, .mean = NAN, .sd = NAN};
    of.median = quantile_of(values, count, 0.5);
    of.p95 = quantile_of(values, count, 0.95);
    double sum = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        of.endless += isinf(values[i]) != 0;
    }
    if (count == 0)
        return of;
    of.mean = sum / (double)count;
    if (of.endless > 0) {
        of.sd = INFINITY;
        return of;
    }
    for (size_t i = 0; i < count; i++)
        square += (values[i] - of.mean) * (values[i] - of.mean);
    of.sd = count > 1 ? sqrt(square / (double)(count - 1)) : 0;
    return of;
}
