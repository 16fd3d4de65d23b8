/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sum_digest.h"

#include <assert.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "base/word_digest.h"

static size_t stripe_length(size_t dimension, size_t stripe)
{
    size_t left = dimension - stripe * SUM_DIGEST_STRIPE;
    return left < SUM_DIGEST_STRIPE ? left : SUM_DIGEST_STRIPE;
}

static uint64_t stripe_digest(uint64_t step, const float *sum, size_t dimension, size_t stripe)
{
    return XXH3_64bits_withSeed(sum + stripe * SUM_DIGEST_STRIPE,
                                stripe_length(dimension, stripe) * sizeof(*sum), step);
}

static size_t stripes_of(size_t dimension)
{
    return dimension / SUM_DIGEST_STRIPE + (dimension % SUM_DIGEST_STRIPE != 0);
}

uint64_t sum_digest(uint64_t step, const float *sum, size_t dimension)
{
    word_digest stripes;
    word_digest_begin(&stripes, step);
    for (size_t stripe = 0; stripe < stripes_of(dimension); stripe++)
        word_digest_add(&stripes, stripe_digest(step, sum, dimension, stripe));
    return word_digest_end(&stripes);
}

int sum_digester_init(sum_digester *self, size_t dimension, const tarry_allocator *allocator)
{
    *self = (sum_digester){.dimension = dimension, .stripes = stripes_of(dimension)};
    self->left = memory_allocate(allocator, self->stripes, sizeof(*self->left));
    self->digests = memory_allocate(allocator, self->stripes, sizeof(*self->digests));
    if (self->left != NULL && self->digests != NULL)
        return TARRY_OK;
    sum_digester_destroy(self, allocator);
    return TARRY_ERROR_NO_MEMORY;
}

void sum_digester_destroy(sum_digester *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->digests);
    memory_release(allocator, self->left);
    *self = (sum_digester){0};
}

void sum_digester_begin(sum_digester *self, uint64_t step, const float *sum)
{
    self->step = step;
    self->sum = sum;
    for (size_t stripe = 0; stripe < self->stripes; stripe++)
        self->left[stripe] = (uint32_t)stripe_length(self->dimension, stripe);
}

void sum_digester_add(sum_digester *self, size_t first, size_t count)
{
    assert(count <= self->dimension && first <= self->dimension - count);
    while (count > 0) {
        size_t stripe = first / SUM_DIGEST_STRIPE;
        size_t some = (stripe + 1) * SUM_DIGEST_STRIPE - first;
        some = some < count ? some : count;
        assert(some <= self->left[stripe]);
        self->left[stripe] -= (uint32_t)some;
        if (self->left[stripe] == 0)
            self->digests[stripe] = stripe_digest(self->step, self->sum, self->dimension, stripe);
        first += some;
        count -= some;
    }
}

uint64_t sum_digester_end(sum_digester *self)
{
    word_digest stripes;
    word_digest_begin(&stripes, self->step);
    for (size_t stripe = 0; stripe < self->stripes; stripe++)
        word_digest_add(&stripes, self->left[stripe] == 0 ? self->digests[stripe]
                                                          : stripe_digest(self->step, self->sum,
                                                                          self->dimension, stripe));
    return word_digest_end(&stripes);
}

uint64_t sum_digest_piece(uint64_t step, const float *sum, const layout *cut, size_t whole)
{
    word_digest parts;
    word_digest_begin(&parts, step);
    for (uint32_t part = 0; part < cut->parts; part++)
        word_digest_add(&parts, sum_digest(step, sum + part * cut->part_length, whole));
    return word_digest_end(&parts);
}
