/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/norm.h"

#include <float.h>
#include <math.h>

enum { LANES = 16 }; /* sums side by side: enough for the widest registers */

float norm_of(const float *numbers, size_t count)
{
    double sums[LANES] = {0};
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += (double)numbers[at + lane] * (double)numbers[at + lane];
    for (size_t lane = 0; at < count; at++, lane++)
        sums[lane] += (double)numbers[at] * (double)numbers[at];
    double all = 0;
    for (size_t lane = 0; lane < LANES; lane++)
        all += sums[lane];
    double norm = sqrt(all);
    return norm <= (double)FLT_MAX ? (float)norm : FLT_MAX; /* a NaN is not */
}
