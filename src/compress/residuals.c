/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/residuals.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Of its two places one has the residual, the other one what waits. */
typedef struct stripe_state {
    uint8_t side; /* of the residual: 0 or 1 */
    bool filled;  /* it is not all zeros; what its place holds is worth nothing otherwise */
    bool waits;   /* something does */
    bool leaves;  /* and is not all zeros */
} stripe_state;

struct residuals {
    tarry_allocator allocator;
    size_t length, stripe_length;
    stripe_state *stripes;
    float *side[2]; /* length numbers each */
};

int residuals_create(size_t length, size_t stripe_length, const tarry_allocator *allocator,
                     residuals **made)
{
    residuals *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->length = length;
    self->stripe_length = stripe_length;
    size_t stripes = (length + stripe_length - 1) / stripe_length;
    self->stripes = memory_allocate(allocator, stripes, sizeof(*self->stripes));
    self->side[0] = vector_allocate(allocator, length);
    self->side[1] = vector_allocate(allocator, length);
    if (self->stripes == NULL || self->side[0] == NULL || self->side[1] == NULL) {
        residuals_free(self);
        return TARRY_ERROR_NO_MEMORY;
    }
    *made = self;
    return TARRY_OK;
}

void residuals_free(residuals *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    vector_release(&allocator, self->side[0]);
    vector_release(&allocator, self->side[1]);
    memory_release(&allocator, self->stripes);
    memory_release(&allocator, self);
}

static size_t length_of(const residuals *self, uint32_t stripe)
{
    size_t start = stripe * self->stripe_length, rest = self->length - start;
    return rest < self->stripe_length ? rest : self->stripe_length;
}

const float *residuals_of(const residuals *self, uint32_t stripe)
{
    const stripe_state *state = &self->stripes[stripe];
    return state->filled ? self->side[state->side] + stripe * self->stripe_length : NULL;
}

uint32_t residuals_count(const residuals *self)
{
    size_t stripes = (self->length + self->stripe_length - 1) / self->stripe_length;
    uint32_t count = 0;
    for (size_t stripe = 0; stripe < stripes; stripe++)
        count += self->stripes[stripe].filled;
    return count;
}

/* z + e, where what waits is to be. */
static float *begin(residuals *self, uint32_t stripe, const float *z)
{
    stripe_state *state = &self->stripes[stripe];
    const float *before = residuals_of(self, stripe);
    float *sum = self->side[1 - state->side] + stripe * self->stripe_length;
    size_t count = length_of(self, stripe);
    if (before == NULL)
        memcpy(sum, z, count * sizeof(*sum));
    for (size_t i = 0; before != NULL && i < count; i++)
        sum[i] = z[i] + before[i];
    state->waits = true;
    return sum;
}

void residuals_encode(residuals *self, uint32_t stripe, compress_form form, const float *z,
                      uint64_t key, uint8_t *bytes)
{
    float *left = begin(self, stripe, z);
    size_t count = length_of(self, stripe);
    compress_encode(form, left, count, key, bytes);
    compress_decode_add(form, bytes, count, -1, left);
    for (size_t i = 0; i < count; i++)
        left[i] = fabsf(left[i]) <= FLT_MAX ? left[i] : 0;
    self->stripes[stripe].leaves = true;
}

const float *residuals_flush(residuals *self, uint32_t stripe, const float *z)
{
    self->stripes[stripe].leaves = false;
    return begin(self, stripe, z);
}

void residuals_commit(residuals *self, uint32_t stripe)
{
    stripe_state *state = &self->stripes[stripe];
    assert(state->waits);
    state->side = 1 - state->side;
    state->filled = state->leaves;
    state->waits = false;
}

void residuals_void(residuals *self, uint32_t stripe)
{
    self->stripes[stripe].filled = self->stripes[stripe].waits = false;
}
