/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/draws.h"

#include <string.h>

/* A stream's number: kind 5 bits, worker 4, ordinal 23. Kinds are part of what a seed means: those
 * that came later stand behind all others. */
enum { KIND_SHIFT = 27, WORKER_SHIFT = 23 };
enum { DRAWS = 8, GROUPS = DRAWS + 9, CHANGES, LATER_FAULTS, LATER_DRAWS = 28, KINDS = 32 };
_Static_assert(LATER_FAULTS + (int)FAULT_KINDS - DRAWS <= LATER_DRAWS &&
                   LATER_DRAWS + (int)DRAW_KINDS - (GROUPS - DRAWS) <= KINDS,
               "each stream has a number of its own");

static uint32_t number_of(fault_kind kind)
{
    uint32_t number = kind;
    return number < DRAWS ? number : LATER_FAULTS + number - DRAWS;
}

static uint32_t number_of_draw(uint32_t kind)
{
    return kind < GROUPS - DRAWS ? DRAWS + kind : LATER_DRAWS + kind - (GROUPS - DRAWS);
}

static random_stream stream_of(const draws *it, uint32_t kind, uint32_t worker, uint32_t ordinal)
{
    uint32_t number = kind << KIND_SHIFT | worker << WORKER_SHIFT |
                      (ordinal & ((UINT32_C(1) << WORKER_SHIFT) - 1));
    return random_stream_make(it->seed, RANDOM_FAULTS, it->run, number);
}

void draws_init(draws *it, uint64_t seed, uint32_t run, const fault_list *allowed)
{
    it->seed = seed;
    it->run = run;
    it->allowed = allowed;
    it->struck.count = 0;
    memset(it->chances, 0, sizeof(it->chances));
    for (uint32_t kind = 0; kind < DRAW_KINDS; kind++)
        for (uint32_t worker = 0; worker < MAX_WORKERS; worker++)
            it->streams[kind][worker] = stream_of(it, number_of_draw(kind), worker, 0);
}

random_stream draws_of_group(uint64_t seed, uint32_t group)
{
    return random_stream_make(seed, RANDOM_FAULTS, group, (uint32_t)GROUPS << KIND_SHIFT);
}

random_stream draws_of_change(uint64_t seed, uint32_t group, uint32_t index)
{
    return random_stream_make(seed, RANDOM_FAULTS, group, (uint32_t)CHANGES << KIND_SHIFT | index);
}

uint32_t stream_between(random_stream *stream, uint32_t least, uint32_t most)
{
    return least + random_below(stream, most - least + 1);
}

bool stream_chance(random_stream *stream, double probability)
{
    return random_uniform(stream) < probability;
}

uint32_t draws_between(draws *it, draw_kind kind, uint32_t worker, uint32_t least, uint32_t most)
{
    return stream_between(&it->streams[kind][worker], least, most);
}

bool draws_chance(draws *it, draw_kind kind, uint32_t worker, double probability)
{
    return stream_chance(&it->streams[kind][worker], probability);
}

static bool is_allowed(const draws *it, const fault *wanted)
{
    if (it->allowed == NULL)
        return true;
    for (size_t i = 0; i < it->allowed->count; i++) {
        const fault *allowed = &it->allowed->items[i];
        if (allowed->kind == wanted->kind && allowed->worker == wanted->worker &&
            allowed->ordinal == wanted->ordinal)
            return true;
    }
    return false;
}

bool draws_fault(draws *it, fault_kind kind, uint32_t worker, double probability,
                 random_stream *details)
{
    if (probability <= 0)
        return false;
    fault chance = {kind, worker, it->chances[kind][worker]++};
    *details = stream_of(it, number_of(kind), worker, chance.ordinal);
    if (!stream_chance(details, probability) || !is_allowed(it, &chance))
        return false;
    if (it->struck.count < MAX_FAULTS)
        it->struck.items[it->struck.count++] = chance;
    return true;
}
