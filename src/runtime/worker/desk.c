/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/desk.h"

#include <assert.h>

#include "base/memory.h"
#include "coding/transfer.h"

static int allocate_places(desk *own, const layout *cut, const tarry_allocator *allocator)
{
    own->place = memory_allocate(allocator, own->places, sizeof(*own->place));
    own->spare = memory_allocate(allocator, own->places, sizeof(*own->spare));
    own->folds = memory_allocate(allocator, own->places, sizeof(*own->folds));
    if (own->place == NULL || own->spare == NULL || own->folds == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < own->places; i++) {
        own->place[i] = vector_allocate(allocator, cut->dimension);
        if (own->place[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
        own->spare[own->spare_count++] = own->place[i];
    }
    return TARRY_OK;
}

float *desk_take_place(desk *own, uint32_t slot)
{
    assert(own->spare_count > 0 && own->gradient[slot] == NULL);
    own->gradient[slot] = own->spare[--own->spare_count];
    return own->gradient[slot];
}

void desk_free_place(desk *own, uint32_t slot)
{
    if (own->gradient[slot] != NULL)
        own->spare[own->spare_count++] = own->gradient[slot];
    own->gradient[slot] = NULL;
}

static int allocate_vectors(desk *own, const layout *cut, uint32_t parts,
                            const tarry_allocator *allocator)
{
    size_t vectors = (size_t)own->banks * own->load;
    own->words = memory_allocate(allocator, codec_words(&own->shape), sizeof(uint64_t));
    own->gradient = memory_allocate(allocator, vectors, sizeof(*own->gradient));
    own->finished = memory_allocate(allocator, vectors, sizeof(uint64_t));
    own->inputs = memory_allocate(allocator, own->load, sizeof(*own->inputs));
    own->scratch = memory_allocate(allocator, transfer_encode_scratch(own->load, parts), 1);
    if (own->words == NULL || own->gradient == NULL || own->finished == NULL ||
        own->inputs == NULL || own->part == NULL || own->scratch == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (own->keep == TARRY_KEEP_CREDITED)
        return allocate_places(own, cut, allocator);
    for (size_t i = 0; i < vectors; i++) {
        own->gradient[i] = vector_allocate(allocator, cut->dimension);
        if (own->gradient[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    return TARRY_OK;
}

/* Their own copies: a computation may outlast the plan. */
static int copy_spans(desk *own, const tarry_plan *plan, uint32_t id,
                      const tarry_allocator *allocator)
{
    own->span_offset = memory_allocate(allocator, (size_t)own->load + 1, sizeof(uint32_t));
    if (own->span_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < own->load; slot++)
        own->span_offset[slot + 1] =
            own->span_offset[slot] + tarry_plan_span_count(plan, tarry_plan_chunk(plan, id, slot));
    own->span = memory_allocate(allocator, own->span_offset[own->load], sizeof(*own->span));
    if (own->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < own->load; slot++) {
        uint32_t first = own->span_offset[slot], chunk = tarry_plan_chunk(plan, id, slot);
        for (uint32_t i = first; i < own->span_offset[slot + 1]; i++)
            own->span[i] = tarry_plan_span(plan, chunk, i - first);
    }
    return TARRY_OK;
}

int desk_create(const tarry_plan *plan, uint32_t worker, const desk_settings *settings,
                const tarry_allocator *allocator, desk **made)
{
    const layout *cut = &settings->cut;
    desk *own = memory_allocate(allocator, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->load = tarry_plan_load(plan, worker);
    own->banks = settings->keeps_stale ? 2 : 1;
    own->shape = codec_shape_of(plan, worker, cut->stripes);
    own->keep = settings->keep;
    own->places = settings->ahead < own->load ? settings->ahead + 1 : own->load;
    own->lent = settings->part != NULL;
    own->part = own->lent ? settings->part : vector_allocate(allocator, cut->part_length);
    const tarry_worker_settings machine = {
        .worker = worker,
        .keeps_stale = settings->keeps_stale,
        .dimension = cut->dimension,
        .stripe_length = cut->stripe_length,
        .conditioning_limit = settings->conditioning_limit,
        .keep = settings->keep,
        .ahead = settings->ahead,
    };
    int error = allocate_vectors(own, cut, tarry_plan_parts(plan), allocator);
    if (error == TARRY_OK)
        error = copy_spans(own, plan, worker, allocator);
    if (error == TARRY_OK)
        error = tarry_worker_create(plan, &machine, allocator, &own->machine, NULL);
    if (error != TARRY_OK) {
        desk_free(own, allocator);
        return error;
    }
    *made = own;
    return TARRY_OK;
}

static void release_vector(float **vector, const float *kept, const tarry_allocator *allocator)
{
    if (*vector == kept)
        return;
    vector_release(allocator, *vector);
    *vector = NULL;
}

void desk_clear(desk *own, const float *kept, const tarry_allocator *allocator)
{
    tarry_worker_free(own->machine);
    own->machine = NULL;
    for (size_t i = 0; own->place != NULL && i < own->places; i++)
        release_vector(&own->place[i], kept, allocator);
    if (own->gradient != NULL && own->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)own->banks * own->load; i++)
            release_vector(&own->gradient[i], kept, allocator);
    if (!own->lent)
        vector_release(allocator, own->part);
    own->part = NULL;
    memory_release(allocator, own->scratch);
    memory_release(allocator, own->inputs);
    memory_release(allocator, own->words);
    own->scratch = NULL;
    own->inputs = NULL;
    own->words = NULL;
}

void desk_free(desk *own, const tarry_allocator *allocator)
{
    if (own == NULL)
        return;
    desk_clear(own, NULL, allocator);
    memory_release(allocator, own->folds);
    memory_release(allocator, own->spare);
    memory_release(allocator, own->place);
    memory_release(allocator, own->finished);
    memory_release(allocator, own->gradient);
    memory_release(allocator, own->span);
    memory_release(allocator, own->span_offset);
    memory_release(allocator, own);
}
