/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_QUANTILE_H
#define BASE_QUANTILE_H

#include <stddef.h>

/*
 * The value that a share `quantile` (0..1) of values[0..count-1] does not exceed, interpolated; the
 * values are sorted in place and may be INFINITY, next to which the greater one counts. NaN if
 * count is 0.
 */
double quantile_of(double *values, size_t count, double quantile);

/* What many trials come to. */

typedef struct summary {
    size_t count;
    size_t endless; /* of these: INFINITY, trials without an end */
    double mean;
    double sd;          /* of the sample (count - 1); 0 for one value */
    double median, p95; /* interpolated */
} summary;

/*
 * Sums up values[0..count-1], finite or INFINITY, and sorts them in place. With an endless trial
 * mean and sd are INFINITY, and so are quantiles that fall among or next to those. All are NaN if
 * count is 0.
 */
summary summary_of(double *values, size_t count);

#endif
