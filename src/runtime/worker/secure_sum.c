/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/secure_sum.h"

#include <string.h>

void secure_sum_init(secure_sum *self, const ring *grid)
{
    *self = (secure_sum){.grid = *grid};
}

static void begin(secure_sum *self, uint64_t generation)
{
    self->clamped = 0;
    self->chunks = 0;
    self->generation = generation;
    self->mixed = false;
}

void secure_sum_add(secure_sum *self, const layout *cut, const secure_gradient *gradient,
                    void *words)
{
    if (gradient->begins)
        begin(self, gradient->generation);
    self->mixed = self->mixed || gradient->generation != self->generation;
    self->chunks++;
    self->version = gradient->version;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        const size_t start = layout_stripe_start(cut, stripe);
        const size_t length = layout_stripe_length(cut, stripe);
        uint8_t *at = (uint8_t *)words + ring_bytes(&self->grid, start);
        if (gradient->begins) /* a stripe at a time, so that it is in a cache when it is added to */
            memset(at, 0, ring_bytes(&self->grid, length));
        self->clamped += ring_add(&self->grid, gradient->numbers + start, length, at);
    }
}

masked_counts secure_sum_counts(const secure_sum *self, uint32_t stripe)
{
    return (masked_counts){.chunks = self->chunks, .clamped = stripe == 0 ? self->clamped : 0};
}
