/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/draft.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/decode/decode.h"
#include "plan/rack/rack.h"
#include "plan/span/span.h"

typedef struct place {
    uint32_t position; /* in the worker's order so far; behind all for a copy that is new to it */
    uint32_t chunk;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

/* Sets worker_offset and slot_chunk, in the sequence in which each worker has had its chunks. */
static int list_slots(tarry_plan *plan, const draft *made)
{
    const tarry_plan *from = made->from;
    uint32_t copies = made->offset[made->chunks];
    plan->worker_offset =
        memory_allocate(&plan->allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    plan->slot_chunk = memory_allocate(&plan->allocator, copies, sizeof(*plan->slot_chunk));
    place *places = memory_allocate(&plan->allocator, copies, sizeof(*places));
    uint32_t *listed = memory_allocate(&plan->allocator, plan->workers, sizeof(*listed));
    int error = TARRY_ERROR_NO_MEMORY;
    if (plan->worker_offset == NULL || plan->slot_chunk == NULL || places == NULL || listed == NULL)
        goto release;

    for (uint32_t copy = 0; copy < copies; copy++)
        plan->worker_offset[made->holder[copy] + 1]++;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] += plan->worker_offset[worker];
    for (uint32_t chunk = 0; chunk < made->chunks; chunk++) {
        uint32_t before = from->chunk_offset[made->parent[chunk]];
        for (uint32_t copy = made->offset[chunk]; copy < made->offset[chunk + 1]; copy++) {
            uint32_t worker = made->holder[copy], entry = before + copy - made->offset[chunk];
            bool kept = from->holder_worker[entry] == worker;
            places[plan->worker_offset[worker] + listed[worker]++] =
                (place){kept ? from->holder_position[entry] : UINT32_MAX, chunk};
        }
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        qsort(places + plan->worker_offset[worker], listed[worker], sizeof(*places),
              compare_places);
    for (uint32_t slot = 0; slot < copies; slot++)
        plan->slot_chunk[slot] = places[slot].chunk;
    error = TARRY_OK;

release:
    memory_release(&plan->allocator, listed);
    memory_release(&plan->allocator, places);
    return error;
}

/* Chunk i is again original chunk i, for each. */
static bool is_original(const draft *made)
{
    if (made->chunks != made->from->origins || made->span_offset[made->chunks] != made->chunks)
        return false;
    for (uint32_t chunk = 0; chunk < made->chunks; chunk++)
        if (made->span[chunk].origin != chunk || made->span[chunk].count != made->span[chunk].of)
            return false;
    return true;
}

static int copy_spans(tarry_plan *plan, const draft *made)
{
    if (is_original(made))
        return TARRY_OK;
    uint32_t spans = made->span_offset[made->chunks];
    plan->span_offset =
        memory_allocate(&plan->allocator, (size_t)made->chunks + 1, sizeof(*plan->span_offset));
    plan->span = memory_allocate(&plan->allocator, spans, sizeof(*plan->span));
    if (plan->span_offset == NULL || plan->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk <= made->chunks; chunk++)
        plan->span_offset[chunk] = made->span_offset[chunk];
    for (uint32_t i = 0; i < spans; i++)
        plan->span[i] = made->span[i];
    return span_weigh(plan);
}

int draft_finish(const draft *made, bool changed, const tarry_allocator *allocator,
                 tarry_plan **out)
{
    const tarry_plan *from = made->from;
    tarry_plan *plan = memory_allocate(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return TARRY_ERROR_NO_MEMORY;
    plan->allocator = memory_allocator(allocator);
    plan->workers = from->workers;
    plan->chunks = made->chunks;
    plan->parts = from->parts;
    plan->adaptive = from->adaptive;
    plan->pieces = from->pieces;
    plan->order = from->order;
    plan->seed = from->seed;
    plan->origins = from->origins;
    int error = rack_take(plan, made->rack, made->racks);
    if (error == TARRY_OK)
        error = copy_spans(plan, made);
    if (error == TARRY_OK)
        error = list_slots(plan, made);
    if (error == TARRY_OK)
        error = plan_arrange(plan, changed ? plan->order : TARRY_ORDER_AS_IS);
    if (error == TARRY_OK)
        error = decode_keep(plan, from);
    if (error == TARRY_OK)
        error = plan_take_digest(plan);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    *out = plan;
    return TARRY_OK;
}
