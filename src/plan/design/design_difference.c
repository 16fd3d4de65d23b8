/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base sets in Z_s whose differences repeat as little as possible, found by local search. Two
 * chunks that share two workers are a difference that occurs twice, so that without repeats the
 * graph has no cycle of length 4 (C. J. Colbourn, J. H. Dinitz, Handbook of combinatorial designs,
 * chapter VI.16, on difference families).
 */
#include "plan/design/design.h"

#include <string.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"

/* Bounds on the search: updates of a count in all, and starts. */
static const uint64_t most_updates = UINT64_C(1) << 26;
static const uint32_t most_starts = 16;

typedef struct family {
    tarry_allocator allocator;
    uint32_t modulus;     /* s */
    uint32_t sets;        /* how many base sets */
    uint32_t *begin;      /* sets + 1: where each set's elements begin */
    uint32_t *element;    /* of all sets */
    uint32_t *best;       /* the elements with the least cost so far */
    uint64_t *member;     /* sets * modulus bits: what each set contains */
    uint32_t *occurrence; /* modulus: how often each difference occurs */
    uint64_t cost;        /* sum of the squares of these */
    uint64_t updates;     /* of an occurrence, so far */
} family;

static void family_free(family *sets)
{
    memory_release(&sets->allocator, sets->begin);
    memory_release(&sets->allocator, sets->element);
    memory_release(&sets->allocator, sets->best);
    memory_release(&sets->allocator, sets->member);
    memory_release(&sets->allocator, sets->occurrence);
}

/* `elements` elements in sets whose sizes differ by at most 1, none drawn yet. */
static int family_init(family *sets, const tarry_allocator *allocator, uint32_t modulus,
                       uint32_t count, uint32_t elements)
{
    *sets = (family){.allocator = *allocator, .modulus = modulus, .sets = count};
    sets->begin = memory_allocate(allocator, (size_t)count + 1, sizeof(*sets->begin));
    sets->element = memory_allocate(allocator, elements, sizeof(*sets->element));
    sets->best = memory_allocate(allocator, elements, sizeof(*sets->best));
    sets->member =
        memory_allocate(allocator, bitset_words((size_t)count * modulus), sizeof(*sets->member));
    sets->occurrence = memory_allocate(allocator, modulus, sizeof(*sets->occurrence));
    if (sets->begin == NULL || sets->element == NULL || sets->best == NULL ||
        sets->member == NULL || sets->occurrence == NULL) {
        family_free(sets);
        return TARRY_ERROR_NO_MEMORY;
    }
    for (uint32_t set = 0; set <= count; set++)
        sets->begin[set] = (uint32_t)((uint64_t)elements * set / count);
    return TARRY_OK;
}

static uint32_t minus(uint32_t a, uint32_t b, uint32_t modulus)
{
    return a >= b ? a - b : a + modulus - b;
}

static void add_difference(family *sets, uint32_t difference)
{
    sets->cost += 2 * (uint64_t)sets->occurrence[difference]++ + 1;
}

static void remove_difference(family *sets, uint32_t difference)
{
    sets->cost -= 2 * (uint64_t)--sets->occurrence[difference] + 1;
}

/* Adds or removes the differences of `value` and element[begin..end-1] but for that at `except`. */
static void count_differences(family *sets, uint32_t begin, uint32_t end, uint32_t except,
                              uint32_t value, void (*count)(family *, uint32_t))
{
    for (uint32_t at = begin; at < end; at++) {
        if (at == except)
            continue;
        count(sets, minus(value, sets->element[at], sets->modulus));
        count(sets, minus(sets->element[at], value, sets->modulus));
    }
    sets->updates += 2 * (uint64_t)(end - begin);
}

/* No family of these sizes costs less: its differences spread evenly over the residues but 0. (With
 * an even modulus, half of it occurs an even number of times, so that this may be out of reach.) */
static uint64_t least_cost(const family *sets)
{
    uint64_t differences = 0, residues = sets->modulus - 1;
    for (uint32_t set = 0; set < sets->sets; set++) {
        uint64_t size = sets->begin[set + 1] - sets->begin[set];
        differences += size > 0 ? size * (size - 1) : 0;
    }
    if (residues == 0)
        return 0;
    uint64_t each = differences / residues, more = differences % residues;
    return (residues - more) * each * each + more * (each + 1) * (each + 1);
}

/* Draws all sets anew, each by R. W. Floyd's way of sampling without replacement. */
static void draw_sets(family *sets, random_stream *stream)
{
    bitset_clear(sets->member, (size_t)sets->sets * sets->modulus);
    memset(sets->occurrence, 0, sets->modulus * sizeof(*sets->occurrence));
    sets->cost = 0;
    for (uint32_t set = 0; set < sets->sets; set++) {
        size_t first = (size_t)set * sets->modulus;
        uint32_t begin = sets->begin[set], end = sets->begin[set + 1];
        for (uint32_t at = begin; at < end; at++) {
            uint32_t top = sets->modulus - (end - at);
            uint32_t value = random_below(stream, top + 1);
            if (bitset_test(sets->member, first + value))
                value = top;
            bitset_set(sets->member, first + value);
            count_differences(sets, begin, at, at, value, add_difference);
            sets->element[at] = value;
        }
    }
}

/* Replaces a random element by a random residue unless that costs more. */
static void try_exchange(family *sets, random_stream *stream)
{
    uint32_t set = random_below(stream, sets->sets);
    uint32_t begin = sets->begin[set], end = sets->begin[set + 1];
    sets->updates++;
    if (begin == end)
        return;
    uint32_t at = begin + random_below(stream, end - begin), old = sets->element[at];
    uint32_t value = random_below(stream, sets->modulus);
    size_t first = (size_t)set * sets->modulus;
    if (bitset_test(sets->member, first + value))
        return;
    uint64_t cost = sets->cost;
    count_differences(sets, begin, end, at, old, remove_difference);
    count_differences(sets, begin, end, at, value, add_difference);
    if (sets->cost > cost) {
        count_differences(sets, begin, end, at, value, remove_difference);
        count_differences(sets, begin, end, at, old, add_difference);
        return;
    }
    bitset_reset(sets->member, first + old);
    bitset_set(sets->member, first + value);
    sets->element[at] = value;
}

/* Leaves the elements of the best family found in `best`, the sets' in ascending order. */
static void search(family *sets, uint64_t seed)
{
    uint32_t elements = sets->begin[sets->sets];
    uint64_t least = least_cost(sets), best = UINT64_MAX;
    uint64_t patience = 32 * (uint64_t)elements * sets->modulus;
    for (uint32_t start = 0; start < most_starts && best > least; start++) {
        if (start > 0 && sets->updates >= most_updates)
            break;
        random_stream stream = random_stream_make(seed, RANDOM_DESIGN, 2, start);
        draw_sets(sets, &stream);
        for (uint64_t idle = 0;
             idle < patience && sets->cost > least && sets->updates < most_updates; idle++) {
            uint64_t cost = sets->cost;
            try_exchange(sets, &stream);
            if (sets->cost < cost)
                idle = 0;
        }
        if (sets->cost >= best)
            continue;
        best = sets->cost;
        uint32_t at = 0;
        for (uint32_t set = 0; set < sets->sets; set++)
            for (uint32_t value = 0; value < sets->modulus; value++)
                if (bitset_test(sets->member, (size_t)set * sets->modulus + value))
                    sets->best[at++] = value;
    }
}

static bool fits(uint32_t workers, uint32_t chunks)
{
    return workers % chunks == 0 || chunks % workers == 0;
}

static int refuse(const tarry_plan *plan, tarry_diagnostic *diagnostic)
{
    uint32_t fewer = plan->chunks, more = plan->chunks;
    while (!fits(plan->workers, fewer))
        fewer--;
    while (!fits(plan->workers, more))
        more++;
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "a difference design needs as many chunks as workers, or one a multiple of "
                    "the other, not %u workers and %u chunks: nearest are %u and %u chunks",
                    plan->workers, plan->chunks, fewer, more);
}

/* Chunk k m + i lies on workers i + D_k modulo m if the chunks are no fewer, and chunk i on workers
 * k N + (i + D_k modulo N) if the workers are more. */
static int list_chunks(tarry_plan *plan, const family *sets)
{
    bool wide = plan->chunks >= plan->workers;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t set = worker / sets->modulus;
        plan->worker_offset[worker + 1] =
            wide ? sets->begin[sets->sets] : sets->begin[set + 1] - sets->begin[set];
    }
    int error = design_take_slots(plan);
    if (error != TARRY_OK)
        return error;
    uint32_t slot = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t residue = worker % sets->modulus;
        uint32_t from = wide ? 0 : worker / sets->modulus, to = wide ? sets->sets : from + 1;
        for (uint32_t set = from; set < to; set++) {
            uint32_t first = wide ? set * sets->modulus : 0;
            for (uint32_t at = sets->begin[set]; at < sets->begin[set + 1]; at++)
                plan->slot_chunk[slot++] = first + minus(residue, sets->best[at], sets->modulus);
        }
    }
    return TARRY_OK;
}

int design_difference(tarry_plan *plan, uint32_t replication, uint64_t seed,
                      tarry_diagnostic *diagnostic)
{
    if (!fits(plan->workers, plan->chunks))
        return refuse(plan, diagnostic);
    bool wide = plan->chunks >= plan->workers;
    uint32_t modulus = wide ? plan->workers : plan->chunks;
    uint32_t count = wide ? plan->chunks / modulus : plan->workers / modulus;
    family sets;
    int error = family_init(&sets, &plan->allocator, modulus, count,
                            wide ? count * replication : replication);
    if (error != TARRY_OK)
        return error;
    search(&sets, seed);
    error = list_chunks(plan, &sets);
    family_free(&sets);
    return error;
}
