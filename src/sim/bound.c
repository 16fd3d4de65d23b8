/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <tarry/allocator.h>
#include <tarry/event.h>
#include <tarry/plan.h>
#include <tarry/sim.h>

#include "base/memory.h"
#include "plan/evolve/evolve.h"
#include "plan/evolve/flow.h"
#include "plan/plan.h"
#include "sim/cost.h"

/* What chunks take. Slots and their number are those of the plan; TARRY_NEVER: never done. */
typedef struct bound_times {
    const tarry_plan *plan;
    uint32_t copies;        /* that are wanted of each chunk, >= 1 */
    const uint64_t *time;   /* per slot: what its chunk takes its worker, in ns */
    const uint64_t *prefix; /* per slot: the sum of its worker's shortest times, as many as its
                               position + 1 */
    const uint64_t *moment; /* `moments`, ascending: all finite times and prefixes */
    uint32_t moments;
} bound_times;

/*
 * How soon a round could be over by how many chunks each worker can compute: copies flow from
 * chunks to workers that are quick enough, and each worker takes as many as it can compute. Time by
 * time the flow grows: what is reached from the chunks that lack copies is the least part of the
 * plan that shows a time to be too short, and leads to the first time that it doesn't rule out
 * (Newton's method for a parametric flow, as in plan/evolve/evolve.c).
 */

typedef struct matching {
    const bound_times *of;
    /* Worker j is node j, chunk i node workers + i; behind them source and sink. The arcs are those
     * of the slots, of the workers to the sink, and of the source to the chunks. */
    flow network;
} matching;

static uint32_t node_of(const matching *it, uint32_t chunk)
{
    return it->of->plan->workers + chunk;
}

static uint32_t source_of(const matching *it)
{
    return it->of->plan->workers + it->of->plan->chunks;
}

static uint32_t slot_of_holder(const tarry_plan *plan, uint32_t holder)
{
    return plan->worker_offset[plan->holder_worker[holder]] + plan->holder_position[holder];
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

/* Raises what an arc carries at most to `capacity`, and leaves what flows over it. */
static void widen(flow *network, uint32_t arc, uint64_t capacity)
{
    network->arc[arc].room = capacity - flow_on(network, arc);
}

/* Matches what it can within `time`, which is later than before; gives back how many copies more
 * these are. */
static uint64_t match_within(matching *it, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    const uint32_t edges = plan_edges(plan);
    for (uint32_t slot = 0; slot < edges; slot++)
        if (it->of->time[slot] <= time)
            widen(&it->network, 2 * slot, 1);
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        widen(&it->network, 2 * (edges + worker), count_within(it->of, worker, time));
    return flow_run(&it->network, source_of(it), source_of(it) + 1);
}

/* Workers that are not reached and can compute the chunk within `time`. */
static uint64_t holders_within(const matching *it, uint32_t chunk, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    uint64_t count = 0;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++)
        count += !flow_reached(&it->network, plan->holder_worker[holder]) &&
                 it->of->time[slot_of_holder(plan, holder)] <= time;
    return count;
}

/* Whether what is reached shows that `time` is too short for its chunks. */
static bool rules_out(const matching *it, uint64_t time)
{
    const tarry_plan *plan = it->of->plan;
    uint64_t wanted = 0, room = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        room += flow_reached(&it->network, worker) ? count_within(it->of, worker, time) : 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (!flow_reached(&it->network, node_of(it, chunk)))
            continue;
        wanted += it->of->copies;
        room += holders_within(it, chunk, time);
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

/*
 * The first moment T at which each chunk can have its copies, if a worker computes at most as many
 * chunks as the k shortest of its times fit into T, and none that takes longer than T; TARRY_NEVER
 * if there is none. Errors: NO_MEMORY.
 */
static int bound_by_count(const bound_times *of, const tarry_allocator *allocator,
                          uint64_t *bound_ns)
{
    const tarry_plan *plan = of->plan;
    const uint32_t nodes = plan->workers + plan->chunks;
    matching it = {.of = of};
    int error = flow_init(&it.network, nodes + 2, plan_edges(plan) + nodes, allocator);
    if (error != TARRY_OK)
        return error;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            flow_add(&it.network, node_of(&it, plan->slot_chunk[slot]), worker);
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        flow_add(&it.network, worker, source_of(&it) + 1);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        flow_set(&it.network, flow_add(&it.network, source_of(&it), node_of(&it, chunk)),
                 of->copies);
    *bound_ns = find_bound(&it);
    flow_destroy(&it.network, allocator);
    return TARRY_OK;
}

/*
 * How soon a round could be over at best. With chunks that take each worker a time of its own, the
 * best assignment is an NP-hard problem (scheduling on unrelated machines), so that `matched` is
 * the larger of two relaxations, both below every way of computing the chunks:
 *
 * By count: exact where the chunks of a worker take equal times.
 *
 * By work, where chunks are uneven: worker j may split chunks, and does each at the best rate that
 * it has for any (plan/evolve/evolve.h). It sees what the count doesn't: that not all workers can
 * have the short chunks.
 */

typedef struct bound {
    const tarry_plan *plan;
    const tarry_sim_settings *settings;
    uint64_t round;
    uint32_t copies;
    bool uneven;    /* not all sizes are equal */
    uint64_t *time; /* per slot of the plan: what its chunk takes its worker */
    uint64_t
        *prefix; /* per slot: the sum of its worker's shortest times, as many as its position + 1 */
    uint64_t *moment; /* finite times and prefixes, ascending: when counts or chunks can change */
    uint32_t moments;
    double *size; /* per chunk: what it takes a worker of reference */
    double *rate; /* per worker: its least time per size; INFINITY: it computes nothing */
} bound;

static uint64_t add(uint64_t a, uint64_t b)
{
    return a < TARRY_NEVER - b ? a + b : TARRY_NEVER;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ---- times ---- */

/* Sizes are the times of the first worker that has any; equal ones if there is none. */
static void measure_sizes(bound *of)
{
    const tarry_plan *plan = of->plan;
    double sum = 0;
    for (uint32_t worker = 0; worker < plan->workers && !(sum > 0); worker++) {
        sum = 0;
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
            uint64_t ns = chunk_time_ns(plan, of->settings, of->round, worker, 0, chunk);
            of->size[chunk] = (double)ns;
            if (ns == TARRY_NEVER) {
                sum = 0;
                break;
            }
            sum += (double)ns;
        }
    }
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (!(sum > 0))
            of->size[chunk] = 1;
        of->uneven |= of->size[chunk] != of->size[0];
    }
}

static void measure_times(bound *of)
{
    const tarry_plan *plan = of->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t start = plan->worker_offset[worker], end = plan->worker_offset[worker + 1];
        of->rate[worker] = INFINITY;
        for (uint32_t slot = start; slot < end; slot++) {
            uint32_t chunk = plan->slot_chunk[slot];
            uint64_t ns = chunk_time_ns(plan, of->settings, of->round, worker, slot - start, chunk);
            of->time[slot] = of->prefix[slot] = ns;
            /* A chunk of no size tells nothing, unless it takes time. */
            if (ns != TARRY_NEVER && of->size[chunk] > 0)
                of->rate[worker] = fmin(of->rate[worker], (double)ns / of->size[chunk]);
        }
        qsort(of->prefix + start, end - start, sizeof(*of->prefix), compare);
        for (uint32_t slot = start + 1; slot < end; slot++)
            of->prefix[slot] = add(of->prefix[slot], of->prefix[slot - 1]);
        for (uint32_t slot = start; slot < end; slot++) {
            if (of->prefix[slot] != TARRY_NEVER)
                of->moment[of->moments++] = of->prefix[slot];
            if (of->time[slot] != TARRY_NEVER && of->time[slot] != of->prefix[start])
                of->moment[of->moments++] = of->time[slot];
        }
    }
    qsort(of->moment, of->moments, sizeof(*of->moment), compare);
}

/* ---- balanced ---- */

/*
 * A worker's speed is the share of all work that it does per ns, as its own chunks show it: their
 * sizes over their times, in which the overhead of each is.
 */
static uint64_t balanced_bound(const bound *of)
{
    const tarry_plan *plan = of->plan;
    double work = 0, speed = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        work += of->size[chunk];
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        double size = 0, time = 0;
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            if (of->time[slot] != TARRY_NEVER) {
                size += of->size[plan->slot_chunk[slot]];
                time += (double)of->time[slot];
            }
        if (size > 0)
            speed += size / time; /* without a time: INFINITY */
    }
    double ns = rint(of->copies * work / speed);
    return ns < 0x1p64 ? (uint64_t)ns : TARRY_NEVER;
}

/* ---- matched ---- */

static int bound_by_work(const bound *of, const tarry_allocator *allocator, uint64_t *bound_ns)
{
    const tarry_plan *plan = of->plan;
    cover work;
    int error = cover_init(&work, plan->workers, plan->chunks, of->copies, plan_edges(plan),
                           of->rate, of->size, allocator);
    if (error != TARRY_OK)
        return error;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            cover_hold(&work, worker, plan->slot_chunk[slot]);
    double time = cover_time(&work);
    *bound_ns = time < 0x1p64 ? (uint64_t)time : TARRY_NEVER;
    cover_destroy(&work, allocator);
    return TARRY_OK;
}

static int find_bounds(bound *of, const tarry_allocator *allocator, tarry_sim_bounds *bounds)
{
    measure_sizes(of);
    measure_times(of);
    const bound_times times = {of->plan, of->copies, of->time, of->prefix, of->moment, of->moments};
    tarry_sim_bounds found = {.balanced_ns = balanced_bound(of)};
    uint64_t by_work = 0;
    int error = bound_by_count(&times, allocator, &found.matched_ns);
    if (error != TARRY_OK)
        return error;
    if (found.matched_ns == TARRY_NEVER)
        found.balanced_ns = TARRY_NEVER;
    else if (of->uneven)
        error = bound_by_work(of, allocator, &by_work);
    if (error != TARRY_OK)
        return error;
    if (by_work > found.matched_ns)
        found.matched_ns = by_work;
    *bounds = found;
    return TARRY_OK;
}

static void bound_release(bound *of, const tarry_allocator *allocator)
{
    memory_release(allocator, of->rate);
    memory_release(allocator, of->size);
    memory_release(allocator, of->moment);
    memory_release(allocator, of->prefix);
    memory_release(allocator, of->time);
}

int tarry_sim_bound(const tarry_plan *plan, const tarry_sim_settings *settings, uint64_t round,
                    uint32_t copies, const tarry_allocator *allocator, tarry_sim_bounds *bounds)
{
    bound of = {.plan = plan, .settings = settings, .round = round, .copies = copies};
    uint32_t edges = plan_edges(plan);
    assert(copies >= 1);
    of.time = memory_allocate(allocator, edges, sizeof(*of.time));
    of.prefix = memory_allocate(allocator, edges, sizeof(*of.prefix));
    of.moment = memory_allocate(allocator, 2 * (size_t)edges, sizeof(*of.moment));
    of.size = memory_allocate(allocator, plan->chunks, sizeof(*of.size));
    of.rate = memory_allocate(allocator, plan->workers, sizeof(*of.rate));
    int error = of.time == NULL || of.prefix == NULL || of.moment == NULL || of.size == NULL ||
                        of.rate == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : find_bounds(&of, allocator, bounds);
    bound_release(&of, allocator);
    return error;
}
