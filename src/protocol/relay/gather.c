/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/relay/gather.h"

#include <assert.h>

#include "base/bitset.h"
#include "base/memory.h"

typedef struct gather_member {
    uint32_t lane, epoch;
} gather_member;

struct gather {
    tarry_allocator allocator;
    uint32_t count, parts, stripes;
    gather_member *contributors; /* in the order of additions */
    float *weights;              /* `parts` of each */
    uint32_t *by_lane;           /* contributors, in the order of their lanes */
    uint32_t *added;             /* per stripe: so many contributors */
    uint64_t *came;              /* a bit per stripe and contributor */
};

static size_t bit_of(const gather *self, uint32_t contributor, uint32_t stripe)
{
    return (size_t)stripe * self->count + contributor;
}

/* The first place in by_lane whose lane is not below. */
static uint32_t place_of(const gather *self, uint32_t filled, uint32_t lane)
{
    uint32_t low = 0, high = filled;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (self->contributors[self->by_lane[middle]].lane < lane)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int fill(gather *self, const wire_gather *words)
{
    for (uint32_t i = 0; i < self->count; i++) {
        gather_member *its = &self->contributors[i];
        wire_gather_get(words, i, &its->lane, &its->epoch, self->weights + (size_t)i * self->parts);
        uint32_t at = place_of(self, i, its->lane);
        if (at < i && self->contributors[self->by_lane[at]].lane == its->lane)
            return TARRY_ERROR_FORMAT;
        for (uint32_t j = i; j > at; j--)
            self->by_lane[j] = self->by_lane[j - 1];
        self->by_lane[at] = i;
    }
    return TARRY_OK;
}

int gather_create(const wire_gather *words, uint32_t stripes, const tarry_allocator *allocator,
                  gather **out)
{
    gather *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t count = words->count;
    self->allocator = memory_allocator(allocator);
    self->count = words->count;
    self->parts = words->parts;
    self->stripes = stripes;
    self->contributors = memory_allocate(allocator, count, sizeof(*self->contributors));
    self->weights = memory_allocate(allocator, count * words->parts, sizeof(float));
    self->by_lane = memory_allocate(allocator, count, sizeof(uint32_t));
    self->added = memory_allocate(allocator, stripes, sizeof(uint32_t));
    self->came = memory_allocate(allocator, bitset_words(count * stripes), sizeof(uint64_t));
    int error = self->contributors == NULL || self->weights == NULL || self->by_lane == NULL ||
                        self->added == NULL || self->came == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : fill(self, words);
    if (error == TARRY_OK)
        *out = self;
    else
        gather_free(self);
    return error;
}

void gather_free(gather *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->contributors);
    memory_release(&allocator, self->weights);
    memory_release(&allocator, self->by_lane);
    memory_release(&allocator, self->added);
    memory_release(&allocator, self->came);
    memory_release(&allocator, self);
}

uint32_t gather_count(const gather *self)
{
    return self->count;
}

uint32_t gather_find(const gather *self, uint32_t lane)
{
    uint32_t at = place_of(self, self->count, lane);
    bool there = at < self->count && self->contributors[self->by_lane[at]].lane == lane;
    return there ? self->by_lane[at] : GATHER_NOBODY;
}

uint32_t gather_epoch(const gather *self, uint32_t contributor)
{
    return self->contributors[contributor].epoch;
}

const float *gather_weights(const gather *self, uint32_t contributor)
{
    return self->weights + (size_t)contributor * self->parts;
}

bool gather_wants(const gather *self, uint32_t contributor, uint32_t stripe)
{
    return stripe < self->stripes && !bitset_test(self->came, bit_of(self, contributor, stripe));
}

void gather_came(gather *self, uint32_t contributor, uint32_t stripe)
{
    assert(gather_wants(self, contributor, stripe));
    bitset_set(self->came, bit_of(self, contributor, stripe));
}

uint32_t gather_next(const gather *self, uint32_t stripe)
{
    uint32_t next = self->added[stripe];
    bool there = next < self->count && bitset_test(self->came, bit_of(self, next, stripe));
    return there ? next : GATHER_NOBODY;
}

bool gather_is_empty(const gather *self, uint32_t stripe)
{
    return self->added[stripe] == 0;
}

bool gather_added(gather *self, uint32_t stripe)
{
    assert(gather_next(self, stripe) != GATHER_NOBODY);
    return ++self->added[stripe] == self->count;
}
