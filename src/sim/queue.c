/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/queue.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

/* Without a branch, since nobody can foresee it. */
static bool is_before(const queue_entry *a, const queue_entry *b)
{
    return (a->time < b->time) | ((a->time == b->time) & (a->sequence < b->sequence));
}

static void put(queue *state, uint32_t at, queue_entry entry)
{
    state->heap[at] = entry;
    state->position[entry.event] = at;
}

/* Moves the hole at `at` up to where `entry` belongs. */
static void sift_up(queue *state, uint32_t at, queue_entry entry)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!is_before(&entry, &state->heap[parent]))
            break;
        put(state, at, state->heap[parent]);
        at = parent;
    }
    put(state, at, entry);
}

static void sift_down(queue *state, uint32_t at, queue_entry entry)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= state->count)
            break;
        if (child + 1 < state->count)
            child += is_before(&state->heap[child + 1], &state->heap[child]);
        if (!is_before(&state->heap[child], &entry))
            break;
        put(state, at, state->heap[child]);
        at = child;
    }
    put(state, at, entry);
}

/* Grows to `capacity`; the new events are free. On failure the queue goes on with what it had. */
static int reserve(queue *state, uint32_t capacity)
{
    const tarry_allocator *allocator = &state->allocator;
    sim_event *events =
        memory_grow(allocator, state->events, state->capacity, capacity, sizeof(*events));
    if (events == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->events = events;
    uint32_t *position =
        memory_grow(allocator, state->position, state->capacity, capacity, sizeof(*position));
    if (position == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->position = position;
    queue_entry *heap = memory_grow(allocator, state->heap, state->count, capacity, sizeof(*heap));
    if (heap == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->heap = heap;
    for (uint32_t event = capacity; event > state->capacity; event--) {
        position[event - 1] = state->free;
        state->free = event - 1;
    }
    state->capacity = capacity;
    return TARRY_OK;
}

int queue_init(queue *state, uint32_t capacity, const tarry_allocator *allocator)
{
    *state = (queue){.allocator = memory_allocator(allocator), .free = QUEUE_NONE};
    return reserve(state, capacity);
}

void queue_destroy(queue *state)
{
    for (uint32_t i = 0; i < state->count; i++)
        memory_release(&state->allocator, state->events[state->heap[i].event].bits);
    memory_release(&state->allocator, state->events);
    memory_release(&state->allocator, state->position);
    memory_release(&state->allocator, state->heap);
}

int queue_push(queue *state, uint64_t time, const sim_event *event, uint32_t *id)
{
    if (state->free == QUEUE_NONE) {
        if (state->capacity > QUEUE_NONE / 2)
            return TARRY_ERROR_NO_MEMORY;
        int error = reserve(state, 2 * state->capacity);
        if (error != TARRY_OK)
            return error;
    }
    uint32_t taken = state->free;
    state->free = state->position[taken];
    state->events[taken] = *event;
    queue_entry entry = {.time = time, .sequence = state->sequence++, .event = taken};
    sift_up(state, state->count++, entry);
    if (id != NULL)
        *id = taken;
    return TARRY_OK;
}

uint64_t queue_next(const queue *state)
{
    return state->count > 0 ? state->heap[0].time : TARRY_NEVER;
}

/* Takes the entry at `at` out of the heap and frees its event. */
static void take_out(queue *state, uint32_t at)
{
    uint32_t event = state->heap[at].event;
    queue_entry last = state->heap[--state->count];
    if (at < state->count) {
        if (at > 0 && is_before(&last, &state->heap[(at - 1) / 2]))
            sift_up(state, at, last);
        else
            sift_down(state, at, last);
    }
    state->position[event] = state->free;
    state->free = event;
}

sim_event queue_pop(queue *state)
{
    assert(state->count > 0);
    sim_event event = state->events[state->heap[0].event];
    take_out(state, 0);
    return event;
}

void queue_remove(queue *state, uint32_t id)
{
    uint32_t at = state->position[id];
    assert(at < state->count && state->heap[at].event == id && state->events[id].bits == NULL);
    take_out(state, at);
}

void queue_sweep(queue *state, bool (*over)(const sim_event *event))
{
    uint32_t kept = 0;
    for (uint32_t at = 0; at < state->count; at++) {
        uint32_t event = state->heap[at].event;
        if (!over(&state->events[event])) {
            state->heap[kept++] = state->heap[at];
            continue;
        }
        memory_release(&state->allocator, state->events[event].bits);
        state->position[event] = state->free;
        state->free = event;
    }
    state->count = kept;
    for (uint32_t at = kept; at-- > 0;)
        sift_down(state, at, state->heap[at]);
}
