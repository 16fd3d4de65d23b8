/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sum/decode.h"

#include <string.h>

#include "coding/transfer.h"

void decode_stripe(const kernel *kernels, const tarry_plan *plan, const layout *cut,
                   uint32_t stripe, const float *const *z, const uint32_t *sender, size_t count,
                   double scale, bool add, float *scratch, float *estimate)
{
    const double *decode = plan_decode(plan, cut->parts);
    for (uint32_t part = 0; part < cut->parts; part++)
        for (size_t i = 0; i < count; i++)
            scratch[part * count + i] =
                (float)(scale * decode[(size_t)part * plan->workers + sender[i]]);
    transfer_decode(kernels, cut, stripe, z, scratch, count, add, estimate);
}

void decode_zero(const layout *cut, uint32_t stripe, float *estimate)
{
    for (uint32_t part = 0; part < cut->parts; part++) {
        size_t present = layout_present(cut, part, stripe);
        if (present > 0)
            memset(estimate + part * cut->part_length + layout_stripe_start(cut, stripe), 0,
                   present * sizeof(float));
    }
}
