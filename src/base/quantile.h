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

#endif
