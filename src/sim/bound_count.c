/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A maximum matching of copies to workers: ways that end at a worker with time to spare, along
 * which copies pass from worker to worker, all shortest ones at a time (J. E. Hopcroft and R. M.
 * Karp, An n^5/2 algorithm for maximum matchings in bipartite graphs, 1973). Time by time the
 * matching grows: what is reached from the chunks that lack copies is the least part of the plan
 * that shows a time to be too short, and leads to the first time that it doesn't rule out (Newton's
 * method for a parametric flow, as in plan/evolve/cover.c).
 */
#include "sim/bound_count.h"

#include "base/bitset.h"
#include "base/memory.h"
#include "plan/plan.h"

#define NONE UINT32_MAX

typedef struct matching {
    const bound_times *of;
    uint64_t *open;  /* bits per slot: quick enough, and not taken */
    uint64_t *taken; /* the same: the worker computes the chunk */
    uint32_t *spare; /* per worker: chunks more that it can compute */
    uint32_t *lack;  /* per chunk: copies that nobody computes */
    /* Worker j is node j, chunk i node workers + i. */
    uint32_t *level; /* per node: steps from a chunk that lacks copies; NONE: not reached */
    uint32_t *next;  /* per node that is reached: the holder or slot at which the search goes on */
    uint32_t *queue; /* per node: those that were reached, in turn; or the slots of a way */
    uint32_t reached;
    uint32_t last; /* level of the first workers that have time to spare; NONE: there are none */
} matching;

static uint32_t node_of(const matching *it, uint32_t chunk)
{
    return it->of->plan->workers + chunk;
}

static uint32_t slot_of_holder(const tarry_plan *plan, uint32_t holder)
{
    return plan->worker_offset[plan->holder_worker[holder]] + plan->holder_position[holder];
}

static uint32_t worker_of_slot(const tarry_plan *plan, uint32_t slot)
{
    return plan
        ->holder_worker[plan->chunk_offset[plan->slot_chunk[slot]] + plan->slot_holder[slot]];
}

/* How many chunks the worker can compute within `time`. */
static uint32_t count_within(const bound_times *of, uint32_t worker, uint64_t time)
{
    uint32_t low = of->plan->worker_offset[worker], start = low;
    uint32_t high = of->plan->worker_offset[worker + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (of->prefix[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low - start;
}

/* ---- shortest ways ---- */

static void reach(matching *it, uint32_t node, uint32_t level, uint32_t first)
{
    it->level[node] = level;
    it->next[node] = first;
    it->queue[it->reached++] = node;
}

static void look_from_chunk(matching *it, uint32_t chunk, uint32_t level)
{
    const tarry_plan *plan = it->of->plan;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (it->level[worker] != NONE || !bitset_test(it->open, slot_of_holder(plan, holder)))
            continue;
        reach(it, worker, level, plan->worker_offset[worker]);
        if (it->spare[worker] > 0)
            it->last = level;
    }
}

static void look_from_worker(matching *it, uint32_t worker, uint32_t level)
{
    const tarry_plan *plan = it->of->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        uint32_t chunk = plan->slot_chunk[slot], node = node_of(it, chunk);
        if (bitset_test(it->taken, slot) && it->level[node] == NONE)
            reach(it, node, level, plan->chunk_offset[chunk]);
    }
}

/* Breadth first, as far as the first workers that have time to spare. Whether there are any; else
 * all that can be reached is. */
static bool find_levels(matching *it)
{
    const tarry_plan *plan = it->of->plan;
    uint32_t nodes = plan->workers + plan->chunks;
    it->reached = 0;
    it->last = NONE;
    for (uint32_t node = 0; node < nodes; node++)
        it->level[node] = NONE;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        if (it->lack[chunk] > 0)
            reach(it, node_of(it, chunk), 0, plan->chunk_offset[chunk]);
    for (uint32_t head = 0; head < it->reached; head++) {
        uint32_t node = it->queue[head], level = it->level[node];
        if (it->last != NONE && level >= it->last)
            break;
        if (node < plan->workers)
            look_from_worker(it, node, level + 1);
        else
            look_from_chunk(it, node - plan->workers, level + 1);
    }
    return it->last != NONE;
}

/* The next slot on a shortest way from this chunk, or NONE. */
static uint32_t slot_from_chunk(matching *it, uint32_t chunk)
{
    const tarry_plan *plan = it->of->plan;
    uint32_t node = node_of(it, chunk);
    for (uint32_t *at = &it->next[node]; *at < plan->chunk_offset[chunk + 1]; (*at)++) {
        uint32_t slot = slot_of_holder(plan, *at);
        if (it->level[plan->holder_worker[*at]] == it->level[node] + 1 &&
            bitset_test(it->open, slot))
            return slot;
    }
    return NONE;
}

static uint32_t slot_from_worker(matching *it, uint32_t worker)
{
    const tarry_plan *plan = it->of->plan;
    for (uint32_t *at = &it->next[worker]; *at < plan->worker_offset[worker + 1]; (*at)++)
        if (bitset_test(it->taken, *at) &&
            it->level[node_of(it, plan->slot_chunk[*at])] == it->level[worker] + 1)
            return *at;
    return NONE;
}

/* Along the way of `length` slots from a chunk to a worker, each copy passes on. */
static void pass_on(matching *it, uint32_t chunk, uint32_t worker, uint32_t length)
{
    const uint32_t *way = it->queue;
    for (uint32_t i = 0; i < length; i++) {
        bitset_put(it->taken, way[i], i % 2 == 0);
        bitset_put(it->open, way[i], i % 2 != 0);
    }
    it->lack[chunk]--;
    it->spare[worker]--;
}

/* Depth first along rising levels, from a chunk to a worker that has time to spare. */
static bool find_way(matching *it, uint32_t from)
{
    const tarry_plan *plan = it->of->plan;
    uint32_t *way = it->queue, length = 0, node = node_of(it, from);
    for (;;) {
        bool at_worker = node < plan->workers;
        if (at_worker && it->spare[node] > 0) {
            pass_on(it, from, node, length);
            return true;
        }
        uint32_t slot =
            at_worker ? slot_from_worker(it, node) : slot_from_chunk(it, node - plan->workers);
        bool dead_end = slot == NONE;
        if (!dead_end)
            way[length++] = slot;
        else if (length > 0)
            slot = way[--length]; /* back, and past the slot that led here */
        else
            return false;
        node = at_worker ? node_of(it, plan->slot_chunk[slot]) : worker_of_slot(plan, slot);
        it->next[node] += dead_end;
    }
}

/* Matches what it can; gives back how many copies more these are. */
static uint64_t match(matching *it)
{
    uint64_t found = 0;
    while (find_levels(it))
        for (uint32_t chunk = 0; chunk < it->of->plan->chunks; chunk++)
            while (it->lack[chunk] > 0 && find_way(it, chunk))
                found++;
    return found;
}

/* The same within `time`, which is later than before. */
static uint64_t match_within(matching *it, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t taken = 0;
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++) {
            bool is_taken = bitset_test(it->taken, slot);
            taken += is_taken;
            bitset_put(it->open, slot, !is_taken && it->of->time[slot] <= time);
        }
        it->spare[worker] = count_within(it->of, worker, time) - taken;
    }
    return match(it);
}

/* ---- times ---- */

/* Workers that are not reached and can compute the chunk within `time`. */
static uint64_t holders_within(const matching *it, uint32_t chunk, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    uint64_t count = 0;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++)
        count += it->level[plan->holder_worker[holder]] == NONE &&
                 it->of->time[slot_of_holder(plan, holder)] <= time;
    return count;
}

/* Whether what is reached shows that `time` is too short for its chunks. */
static bool rules_out(const matching *it, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    uint64_t wanted = 0, room = 0;
    for (uint32_t i = 0; i < it->reached; i++) {
        uint32_t node = it->queue[i];
        if (node < plan->workers) {
            room += count_within(it->of, node, time);
        } else {
            wanted += it->of->copies;
            room += holders_within(it, node - plan->workers, time);
        }
    }
    return wanted > room;
}

/* The same of all workers and chunks, whoever holds what. */
static bool counts_rule_out(const matching *it, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    uint64_t wanted = (uint64_t)plan->chunks * it->of->copies, room = 0;
    for (uint32_t worker = 0; worker < plan->workers && room < wanted; worker++)
        room += count_within(it->of, worker, time);
    return wanted > room;
}

/* The first of the moments from `low` on that this does not rule out, or their number. */
static uint32_t first_moment(const matching *it, uint32_t low,
                             bool (*is_out)(const matching *it, uint64_t time))
{
    uint32_t high = it->of->moments;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_out(it, it->of->moment[middle]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t find_bound(matching *it)
{
    uint64_t missing = (uint64_t)it->of->plan->chunks * it->of->copies;
    uint32_t at = first_moment(it, 0, counts_rule_out);
    for (; at < it->of->moments; at = first_moment(it, at + 1, rules_out)) {
        missing -= match_within(it, it->of->moment[at]);
        if (missing == 0)
            return it->of->moment[at];
    }
    return TARRY_NEVER;
}

int bound_by_count(const bound_times *of, const tarry_allocator *allocator, uint64_t *bound_ns)
{
    const tarry_plan *plan = of->plan;
    size_t nodes = (size_t)plan->workers + plan->chunks, words = bitset_words(plan_edges(plan));
    matching it = {.of = of};
    it.open = memory_allocate(allocator, words, sizeof(*it.open));
    it.taken = memory_allocate(allocator, words, sizeof(*it.taken));
    it.spare = memory_allocate(allocator, plan->workers, sizeof(*it.spare));
    it.lack = memory_allocate(allocator, plan->chunks, sizeof(*it.lack));
    it.level = memory_allocate(allocator, nodes, sizeof(*it.level));
    it.next = memory_allocate(allocator, nodes, sizeof(*it.next));
    it.queue = memory_allocate(allocator, nodes, sizeof(*it.queue));
    int error = TARRY_ERROR_NO_MEMORY;
    if (it.open != NULL && it.taken != NULL && it.spare != NULL && it.lack != NULL &&
        it.level != NULL && it.next != NULL && it.queue != NULL) {
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            it.lack[chunk] = of->copies;
        *bound_ns = find_bound(&it);
        error = TARRY_OK;
    }
    memory_release(allocator, it.queue);
    memory_release(allocator, it.next);
    memory_release(allocator, it.level);
    memory_release(allocator, it.lack);
    memory_release(allocator, it.spare);
    memory_release(allocator, it.taken);
    memory_release(allocator, it.open);
    return error;
}
