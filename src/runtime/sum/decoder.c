/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sum/decoder.h"

#include <assert.h>
#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "runtime/sum/decode.h"

int decoder_init(decoder *state, const tarry_plan *plan, const layout *cut, const kernel *kernels,
                 float *const *part, const tarry_allocator *allocator)
{
    size_t workers = plan->workers, stripes = cut->stripes;
    *state = (decoder){
        .plan = plan, .cut = *cut, .stripes = cut->stripes, .kernels = kernels, .part = part};
    state->fresh = memory_allocate(allocator, bitset_words(stripes), sizeof(uint64_t));
    state->waiting = memory_allocate(allocator, stripes, sizeof(uint32_t));
    state->senders = memory_allocate(allocator, stripes * workers, sizeof(uint32_t));
    state->z = memory_allocate(allocator, workers, sizeof(*state->z));
    state->weights = memory_allocate(allocator, workers * plan->parts, sizeof(float));
    if (state->fresh == NULL || state->waiting == NULL || state->senders == NULL ||
        state->z == NULL || state->weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

void decoder_destroy(decoder *state, const tarry_allocator *allocator)
{
    memory_release(allocator, state->weights);
    memory_release(allocator, state->z);
    memory_release(allocator, state->senders);
    memory_release(allocator, state->waiting);
    memory_release(allocator, state->fresh);
}

/* The first sum overwrites, so that a cleared stripe need not be written twice. */
void decoder_clear(decoder *state, uint32_t parts, uint32_t stripe)
{
    if (parts != state->cut.parts) {
        state->cut = layout_make(state->cut.dimension, parts, state->cut.stripe_length);
        assert(state->cut.stripes <= state->stripes);
        bitset_clear(state->fresh, state->stripes);
        memset(state->waiting, 0, state->stripes * sizeof(*state->waiting));
    }
    bitset_set(state->fresh, stripe);
    state->waiting[stripe] = 0;
}

void decoder_forget(decoder *state)
{
    for (uint32_t stripe = 0; stripe < state->stripes; stripe++)
        state->waiting[stripe] = 0;
}

void decoder_add(decoder *state, uint32_t worker, uint32_t stripe, double scale)
{
    state->scale = scale;
    assert(state->waiting[stripe] < state->plan->workers);
    state->senders[(size_t)stripe * state->plan->workers + state->waiting[stripe]++] = worker;
}

const uint32_t *decoder_senders(const decoder *state, uint32_t stripe)
{
    return state->senders + (size_t)stripe * state->plan->workers;
}

uint32_t decoder_flush(decoder *state, uint32_t stripe)
{
    const tarry_plan *plan = state->plan;
    const uint32_t *senders = decoder_senders(state, stripe);
    uint32_t count = state->waiting[stripe];
    if (count == 0)
        return 0;
    size_t start = layout_stripe_start(&state->cut, stripe);
    for (uint32_t i = 0; i < count; i++)
        state->z[i] = state->part[senders[i]] + start;
    bool add = !bitset_test(state->fresh, stripe);
    decode_stripe(state->kernels, plan, &state->cut, stripe, state->z, senders, count, state->scale,
                  add, state->weights, state->estimate);
    bitset_reset(state->fresh, stripe);
    state->waiting[stripe] = 0;
    return count;
}

void decoder_finish(decoder *state)
{
    for (uint32_t stripe = 0; stripe < state->cut.stripes; stripe++)
        if (bitset_test(state->fresh, stripe))
            decode_zero(&state->cut, stripe, state->estimate);
    bitset_clear(state->fresh, state->cut.stripes);
}
