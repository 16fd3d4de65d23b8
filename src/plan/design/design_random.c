/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration model: every chunk has `replication` stubs, which are shuffled and dealt to the
 * workers' slots. Where a worker gets a chunk twice, the second copy is exchanged with that of a
 * random slot such that no new double arises.
 *
 * Such a slot always exists if replication <= m/2, where loads are at most (N + 1)/2: let worker j
 * hold chunk c twice. replication * (N - load_j + 1) edges or more belong to chunks that j does not
 * hold; at most (replication - 2) * max_load of these belong to other holders of c, which is less.
 * A denser graph is therefore drawn as the complement of a sparser one.
 */
#include "plan/design/design.h"

#include <stdlib.h>
#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/random.h"

enum { STREAM_DEAL, STREAM_LIST };

enum { LEAST_CHUNKS_PER_SLOT = 32 }; /* where slots are looked through: no bits are kept then */

typedef struct dealing {
    uint32_t workers, chunks;
    uint32_t edges;
    uint32_t *start; /* workers + 1: worker j's slots are start[j] .. start[j + 1] - 1 */
    uint32_t *owner; /* edges: whose slot it is */
    uint32_t *dealt; /* edges: which chunk lies in the slot */
    uint64_t
        *doubled; /* edges bits: slots whose chunk their owner got in an earlier slot as well */
    /* workers * chunks bits, by worker: whether the worker has the chunk in a slot that is not
     * doubled; NULL where few slots are quickly looked through for that. */
    uint64_t *held;
} dealing;

static size_t pair_bit(const dealing *deal, uint32_t worker, uint32_t chunk)
{
    return (size_t)worker * deal->chunks + chunk;
}

/* Whether the worker has the chunk in a slot before `end` that is not doubled. */
static bool holds_before(const dealing *deal, uint32_t worker, uint32_t end, uint32_t chunk)
{
    if (deal->held != NULL)
        return bitset_test(deal->held, pair_bit(deal, worker, chunk));
    for (uint32_t slot = deal->start[worker]; slot < end; slot++)
        if (deal->dealt[slot] == chunk && !bitset_test(deal->doubled, slot))
            return true;
    return false;
}

static bool holds(const dealing *deal, uint32_t worker, uint32_t chunk)
{
    return holds_before(deal, worker, deal->start[worker + 1], chunk);
}

static void put_held(dealing *deal, uint32_t worker, uint32_t chunk, bool value)
{
    if (deal->held != NULL)
        bitset_put(deal->held, pair_bit(deal, worker, chunk), value);
}

/* Marks what is held and doubled. */
static void find_doubles(dealing *deal)
{
    for (uint32_t slot = 0; slot < deal->edges; slot++) {
        uint32_t worker = deal->owner[slot], chunk = deal->dealt[slot];
        bitset_put(deal->doubled, slot, holds_before(deal, worker, slot, chunk));
        put_held(deal, worker, chunk, true);
    }
}

/* Fills owner and dealt by chance. */
static void deal_stubs(dealing *deal, uint32_t replication, random_stream *stream)
{
    for (uint32_t worker = 0; worker < deal->workers; worker++)
        for (uint32_t slot = deal->start[worker]; slot < deal->start[worker + 1]; slot++)
            deal->owner[slot] = worker;
    for (uint32_t slot = 0; slot < deal->edges; slot++)
        deal->dealt[slot] = slot / replication;
    random_shuffle(stream, deal->dealt, deal->edges);
}

/* Takes the chunk out of a slot. The owner still holds a doubled one; if it is the first copy of a
 * doubled one, the other copy's turn is still to come, and it is then marked as held again. */
static void lift(dealing *deal, uint32_t slot)
{
    if (!bitset_test(deal->doubled, slot))
        put_held(deal, deal->owner[slot], deal->dealt[slot], false);
    bitset_reset(deal->doubled, slot);
}

static void lay(dealing *deal, uint32_t slot, uint32_t chunk)
{
    deal->dealt[slot] = chunk;
    put_held(deal, deal->owner[slot], chunk, true);
}

/* A step that visits all of 0..count-1 modulo count, and far apart in succession. */
static uint32_t wide_step(uint32_t count)
{
    for (uint32_t step = (uint32_t)((uint64_t)count * 618 / 1000);; step++) {
        uint32_t divisor = count;
        for (uint32_t rest = step; rest != 0;) {
            uint32_t next = divisor % rest;
            divisor = rest;
            rest = next;
        }
        if (divisor == 1)
            return step;
    }
}

/* Exchanges every doubled chunk with the first fitting slot from a random one on. Slots are tried
 * far apart, as none of those of a worker that holds the chunk fits. */
static void part_doubles(dealing *deal, random_stream *stream)
{
    uint32_t step = wide_step(deal->edges);
    for (uint32_t slot = 0; slot < deal->edges; slot++) {
        if (!bitset_test(deal->doubled, slot))
            continue;
        uint32_t owner = deal->owner[slot], chunk = deal->dealt[slot];
        if (!holds(deal, owner, chunk)) { /* the first copy has gone in an exchange */
            put_held(deal, owner, chunk, true);
            bitset_reset(deal->doubled, slot);
            continue;
        }
        uint32_t other = random_below(stream, deal->edges);
        while (holds(deal, owner, deal->dealt[other]) || holds(deal, deal->owner[other], chunk))
            other = (uint32_t)(((uint64_t)other + step) % deal->edges);
        uint32_t exchanged = deal->dealt[other];
        lift(deal, slot);
        lift(deal, other);
        lay(deal, slot, exchanged);
        lay(deal, other, chunk);
    }
}

static int compare_chunks(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Lists what a worker holds, ascending; gives back how many these are. */
static uint32_t list_slots(const dealing *deal, uint32_t worker, uint32_t *list)
{
    uint32_t first = deal->start[worker], count = deal->start[worker + 1] - first;
    memcpy(list, deal->dealt + first, count * sizeof(*list));
    qsort(list, count, sizeof(*list), compare_chunks);
    return count;
}

/* The same by the bits, or what it does not hold if `complement`. */
static uint32_t list_bits(const dealing *deal, uint32_t worker, bool complement, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t chunk = 0; chunk < deal->chunks; chunk++)
        if (holds(deal, worker, chunk) != complement)
            list[count++] = chunk;
    return count;
}

/* Lists what each worker holds, or does not hold if `complement`, in random sequence. */
static void list_held(const dealing *deal, bool complement, uint64_t seed, uint32_t *list)
{
    for (uint32_t worker = 0; worker < deal->workers; worker++) {
        uint32_t count = deal->held != NULL ? list_bits(deal, worker, complement, list)
                                            : list_slots(deal, worker, list);
        random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_LIST, worker);
        random_shuffle(&stream, list, count);
        list += count;
    }
}

/* Sets plan->worker_offset[j + 1] to the load of worker j: a random choice of workers has one chunk
 * more than the others. */
static void draw_loads(tarry_plan *plan, uint32_t replication, random_stream *stream)
{
    uint32_t edges = plan->chunks * replication;
    uint32_t *load = plan->worker_offset + 1;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        load[worker] = edges / plan->workers + (worker < edges % plan->workers ? 1 : 0);
    random_shuffle(stream, load, plan->workers);
}

int design_random(tarry_plan *plan, uint32_t replication, uint64_t seed)
{
    random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_DEAL, 0);
    draw_loads(plan, replication, &stream);

    bool complement = replication > plan->workers / 2;
    uint32_t drawn = complement ? plan->workers - replication : replication;
    const tarry_allocator *allocator = &plan->allocator;
    dealing deal = {
        .workers = plan->workers,
        .chunks = plan->chunks,
        .edges = plan->chunks * drawn,
    };
    bool looks = !complement && deal.chunks / LEAST_CHUNKS_PER_SLOT >= deal.edges / deal.workers;
    deal.start = memory_allocate(allocator, (size_t)deal.workers + 1, sizeof(*deal.start));
    deal.owner = memory_allocate(allocator, deal.edges, sizeof(*deal.owner));
    deal.dealt = memory_allocate(allocator, deal.edges, sizeof(*deal.dealt));
    deal.doubled = memory_allocate(allocator, bitset_words(deal.edges), sizeof(*deal.doubled));
    if (!looks)
        deal.held = memory_allocate(allocator, bitset_words((size_t)deal.workers * deal.chunks),
                                    sizeof(*deal.held));
    int error = TARRY_ERROR_NO_MEMORY;
    if (deal.start == NULL || deal.owner == NULL || deal.dealt == NULL || deal.doubled == NULL ||
        (!looks && deal.held == NULL))
        goto release;

    for (uint32_t worker = 0; worker < deal.workers; worker++) {
        uint32_t load = plan->worker_offset[worker + 1];
        deal.start[worker + 1] = deal.start[worker] + (complement ? deal.chunks - load : load);
    }
    error = design_take_slots(plan);
    if (error != TARRY_OK)
        goto release;
    deal_stubs(&deal, drawn, &stream);
    find_doubles(&deal);
    part_doubles(&deal, &stream);
    list_held(&deal, complement, seed, plan->slot_chunk);

release:
    memory_release(allocator, deal.held);
    memory_release(allocator, deal.doubled);
    memory_release(allocator, deal.dealt);
    memory_release(allocator, deal.owner);
    memory_release(allocator, deal.start);
    return error;
}
