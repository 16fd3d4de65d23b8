/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/secure_sum.h"

#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "runtime/masked_words.h"

int secure_sum_init(secure_sum *self, const ring *grid, const layout *cut,
                    const tarry_allocator *allocator)
{
    *self = (secure_sum){.grid = *grid};
    if (grid->bits == 0)
        return TARRY_OK;
    self->clamped = memory_allocate(allocator, cut->stripes, sizeof(*self->clamped));
    return self->clamped != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void secure_sum_destroy(secure_sum *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->clamped);
    self->clamped = NULL;
}

static void begin(secure_sum *self, const layout *cut, uint64_t generation)
{
    memset(self->clamped, 0, cut->stripes * sizeof(*self->clamped));
    self->chunks = 0;
    self->generation = generation;
    self->mixed = false;
}

void secure_sum_add(secure_sum *self, const layout *cut, const secure_gradient *gradient,
                    void *words)
{
    if (gradient->begins)
        begin(self, cut, gradient->generation);
    self->mixed = self->mixed || gradient->generation != self->generation;
    self->chunks++;
    self->version = gradient->version;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        const size_t start = layout_stripe_start(cut, stripe);
        const size_t length = layout_stripe_length(cut, stripe);
        uint8_t *at = (uint8_t *)words + ring_bytes(&self->grid, start);
        if (gradient->begins) /* a stripe at a time, so that it is in a cache when it is added to */
            memset(at, 0, ring_bytes(&self->grid, length));
        self->clamped[stripe] += ring_add(&self->grid, gradient->numbers + start, length, at);
    }
}

void secure_sum_count(const secure_sum *self, uint32_t stripe, void *out)
{
    memset(out, 0, ring_bytes(&self->grid, RING_COUNTS));
    ring_count(&self->grid, out, MASKED_CHUNKS, self->chunks);
    ring_count(&self->grid, out, MASKED_CLAMPED, self->clamped[stripe]);
}
