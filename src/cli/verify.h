/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include <stddef.h>

/*
 * How far estimate[0..count-1] is from truth: *error = max|estimate - truth| / max|truth| and
 * *squared = |estimate - truth|^2 / |truth|^2. Numbers below FLT_MIN, the least that float32 holds
 * with all digits, count as 0. Both are 0 where both vectors are zero, and infinite where the truth
 * alone is, or where a number of the estimate is not finite.
 */
void verify_estimate(const double *truth, const float *estimate, size_t count, double *error,
                     double *squared);

#endif
