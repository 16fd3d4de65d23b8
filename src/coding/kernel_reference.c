/* SPDX-License-Identifier: Apache-2.0 */
/* The plain kernel that the others are checked against, and what runs where there is no other. */
#include "coding/kernel_variants.h"

#include <string.h>

enum { BLOCK = 1024 }; /* numbers of `out` that stay in the first cache while the inputs pass */

static void add_scaled(float *restrict out, const float *restrict in, float coefficient,
                       size_t length)
{
    for (size_t x = 0; x < length; x++)
        out[x] += coefficient * in[x];
}

void kernel_combine_reference(float *out, const float *const *in, const float *coefficients,
                              size_t inputs, size_t length, kernel_mode mode)
{
    for (size_t start = 0; start < length; start += BLOCK) {
        size_t count = length - start < BLOCK ? length - start : BLOCK;
        if (mode != KERNEL_ADD)
            memset(out + start, 0, count * sizeof(*out));
        for (size_t k = 0; k < inputs; k++)
            add_scaled(out + start, in[k] + start, coefficients[k], count);
    }
}
