/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/local/local_desk.h"

#include "base/memory.h"
#include "coding/transfer.h"

static int allocate_vectors(local_desk *desk, const layout *cut, uint32_t parts,
                            const tarry_allocator *allocator)
{
    size_t vectors = (size_t)desk->banks * desk->load;
    desk->words = memory_allocate(allocator, codec_words(&desk->shape), sizeof(uint64_t));
    desk->gradient = memory_allocate(allocator, vectors, sizeof(*desk->gradient));
    desk->inputs = memory_allocate(allocator, desk->load, sizeof(*desk->inputs));
    desk->part = vector_allocate(allocator, cut->part_length);
    desk->scratch = memory_allocate(allocator, transfer_encode_scratch(desk->load, parts), 1);
    if (desk->words == NULL || desk->gradient == NULL || desk->inputs == NULL ||
        desk->part == NULL || desk->scratch == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (desk->keep == TARRY_KEEP_CREDITED) {
        for (size_t i = 0; i < LOCAL_PLACES && desk->load > 0; i++) {
            desk->place[i] = vector_allocate(allocator, cut->dimension);
            if (desk->place[i] == NULL)
                return TARRY_ERROR_NO_MEMORY;
        }
        return TARRY_OK;
    }
    for (size_t i = 0; i < vectors; i++) {
        desk->gradient[i] = vector_allocate(allocator, cut->dimension);
        if (desk->gradient[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    return TARRY_OK;
}

/* Their own copies: a computation may outlast the plan. */
static int copy_spans(local_desk *desk, const tarry_plan *plan, uint32_t id,
                      const tarry_allocator *allocator)
{
    desk->span_offset = memory_allocate(allocator, (size_t)desk->load + 1, sizeof(uint32_t));
    if (desk->span_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < desk->load; slot++)
        desk->span_offset[slot + 1] =
            desk->span_offset[slot] + tarry_plan_span_count(plan, tarry_plan_chunk(plan, id, slot));
    desk->span = memory_allocate(allocator, desk->span_offset[desk->load], sizeof(*desk->span));
    if (desk->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < desk->load; slot++) {
        uint32_t first = desk->span_offset[slot], chunk = tarry_plan_chunk(plan, id, slot);
        for (uint32_t i = first; i < desk->span_offset[slot + 1]; i++)
            desk->span[i] = tarry_plan_span(plan, chunk, i - first);
    }
    return TARRY_OK;
}

int local_desk_create(const tarry_plan *plan, uint32_t id, const layout *cut,
                      const tarry_server_settings *server, const tarry_allocator *allocator,
                      local_desk **desk)
{
    local_desk *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->load = tarry_plan_load(plan, id);
    made->banks = server->fill == TARRY_FILL_STALE ? 2 : 1;
    made->shape = codec_shape_of(plan, id, cut->stripes);
    made->keep = server->keep;
    const tarry_worker_settings settings = {
        .worker = id,
        .keeps_stale = made->banks > 1,
        .dimension = cut->dimension,
        .stripe_length = cut->stripe_length,
        .conditioning_limit = server->conditioning_limit,
        .keep = server->keep,
    };
    int error = allocate_vectors(made, cut, tarry_plan_parts(plan), allocator);
    if (error == TARRY_OK)
        error = copy_spans(made, plan, id, allocator);
    if (error == TARRY_OK)
        error = tarry_worker_create(plan, &settings, allocator, &made->machine, NULL);
    if (error != TARRY_OK) {
        local_desk_free(made, allocator);
        return error;
    }
    *desk = made;
    return TARRY_OK;
}

static void release_vector(float **vector, const float *kept, const tarry_allocator *allocator)
{
    if (*vector == kept)
        return;
    vector_release(allocator, *vector);
    *vector = NULL;
}

void local_desk_clear(local_desk *desk, const float *kept, const tarry_allocator *allocator)
{
    tarry_worker_free(desk->machine);
    desk->machine = NULL;
    for (size_t i = 0; i < LOCAL_PLACES; i++)
        release_vector(&desk->place[i], kept, allocator);
    if (desk->gradient != NULL && desk->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)desk->banks * desk->load; i++)
            release_vector(&desk->gradient[i], kept, allocator);
    release_vector(&desk->part, NULL, allocator);
    memory_release(allocator, desk->scratch);
    memory_release(allocator, desk->inputs);
    memory_release(allocator, desk->words);
    desk->scratch = NULL;
    desk->inputs = NULL;
    desk->words = NULL;
}

void local_desk_free(local_desk *desk, const tarry_allocator *allocator)
{
    if (desk == NULL)
        return;
    local_desk_clear(desk, NULL, allocator);
    memory_release(allocator, desk->gradient);
    memory_release(allocator, desk->span);
    memory_release(allocator, desk->span_offset);
    memory_release(allocator, desk);
}
