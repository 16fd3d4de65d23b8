/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantile.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile_of(double *values, size_t count, double quantile)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(*values), compare);
    double place = quantile * (double)(count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < count ? below + 1 : below;
    double share = place - (double)below;
    if (share == 0)
        return values[below];
    if (isinf(values[above]))
        return values[above];
    return values[below] + share * (values[above] - values[below]);
}

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
