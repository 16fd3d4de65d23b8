/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/worker/fates.h"

#include "base/bitset.h"
#include "base/memory.h"

int fates_init(fates *self, uint32_t stripes, const tarry_allocator *allocator)
{
    size_t words = bitset_words(stripes);
    *self = (fates){.stripes = stripes};
    self->of = memory_allocate(allocator, stripes, sizeof(*self->of));
    self->stood = memory_allocate(allocator, 2 * words, sizeof(*self->stood));
    if (self->of == NULL || self->stood == NULL) {
        fates_destroy(self, allocator);
        return TARRY_ERROR_NO_MEMORY;
    }
    self->voids = self->stood + words;
    return TARRY_OK;
}

void fates_destroy(fates *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->of);
    memory_release(allocator, self->stood);
    *self = (fates){0};
}

void fates_encode(fates *self, uint32_t stripe, uint64_t round, uint32_t epoch)
{
    fate *of = &self->of[stripe];
    of->out = true;
    of->round = round;
    of->epoch = epoch;
}

static void commit(fates *self, uint32_t stripe)
{
    fate *of = &self->of[stripe];
    bitset_set(self->stood, stripe);
    of->since = of->epoch;
    of->out = false;
}

static void make_void(fates *self, uint32_t stripe)
{
    fate *of = &self->of[stripe];
    bitset_set(self->voids, stripe);
    of->since = 0;
    of->out = false;
    self->void_count++;
}

static void begin(fates *self)
{
    bitset_clear(self->stood, self->stripes);
    bitset_clear(self->voids, self->stripes);
}

static bool has_settled(const fates *self)
{
    uint64_t any = 0;
    for (size_t word = 0; word < bitset_words(self->stripes); word++)
        any |= self->stood[word] | self->voids[word];
    return any != 0;
}

static void settle(fates *self, uint32_t stripe, const uint32_t *epochs)
{
    if (epochs[stripe] == self->of[stripe].epoch)
        commit(self, stripe);
    else
        self->of[stripe].out = false;
}

bool fates_finish(fates *self, uint64_t round, const uint32_t *epochs)
{
    if (self->stripes == 0)
        return false;
    begin(self);
    for (uint32_t stripe = 0; epochs != NULL && stripe < self->stripes; stripe++)
        if (self->of[stripe].out && self->of[stripe].round == round)
            settle(self, stripe, epochs);
    return has_settled(self);
}

bool fates_begin(fates *self, uint64_t round, uint32_t life, const uint32_t *epochs)
{
    if (self->stripes == 0)
        return false;
    begin(self);
    for (uint32_t stripe = 0; stripe < self->stripes; stripe++) {
        const fate *of = &self->of[stripe];
        bool lost = of->out && of->round != round && (epochs == NULL || of->round + 1 != round);
        if ((of->since != 0 && of->since < life) || (of->out && of->epoch < life) || lost)
            make_void(self, stripe);
        else if (of->out && of->round != round)
            settle(self, stripe, epochs);
    }
    return has_settled(self);
}
