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
