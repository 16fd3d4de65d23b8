/* SPDX-License-Identifier: Apache-2.0 */
#include "edge_plan.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "test.h"

OWNED_BY(edge, free)

static int compare_by_chunk(const void *left, const void *right)
{
    const edge *a = left, *b = right;
    if (a->chunk != b->chunk)
        return a->chunk < b->chunk ? -1 : 1;
    return a->worker < b->worker ? -1 : a->worker > b->worker;
}

static bool allocate_arrays(tarry_plan *plan, size_t count)
{
    const tarry_allocator *allocator = &plan->allocator;
    size_t word = sizeof(uint32_t);
    plan->worker_offset = memory_allocate(allocator, (size_t)plan->workers + 1, word);
    plan->chunk_offset = memory_allocate(allocator, (size_t)plan->chunks + 1, word);
    plan->slot_chunk = memory_allocate(allocator, count, word);
    plan->slot_holder = memory_allocate(allocator, count, word);
    plan->holder_worker = memory_allocate(allocator, count, word);
    plan->holder_position = memory_allocate(allocator, count, word);
    return plan->worker_offset != NULL && plan->chunk_offset != NULL && plan->slot_chunk != NULL &&
           plan->slot_holder != NULL && plan->holder_worker != NULL &&
           plan->holder_position != NULL;
}

/* Fills both views of the edges; `sorted` has them by chunk,
 * then worker; cursor: a zero per worker. */
static void fill(tarry_plan *plan, const edge *edges, const edge *sorted, size_t count,
                 uint32_t *cursor)
{
    for (size_t i = 0; i < count; i++) {
        plan->worker_offset[edges[i].worker + 1]++;
        plan->chunk_offset[edges[i].chunk + 1]++;
        plan->holder_worker[i] = sorted[i].worker;
    }
    plan->min_replication = UINT32_MAX;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t load = plan->worker_offset[worker + 1];
        plan->max_load = load > plan->max_load ? load : plan->max_load;
        plan->worker_offset[worker + 1] += plan->worker_offset[worker];
    }
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t holders = plan->chunk_offset[chunk + 1];
        plan->max_replication = holders > plan->max_replication ? holders : plan->max_replication;
        plan->min_replication = holders < plan->min_replication ? holders : plan->min_replication;
        plan->chunk_offset[chunk + 1] += plan->chunk_offset[chunk];
    }
    plan->max_psi_bits = (size_t)plan->max_load * plan->max_replication;
    for (size_t i = 0; i < count; i++) {
        uint32_t worker = edges[i].worker, position = cursor[worker]++;
        uint32_t slot = plan->worker_offset[worker] + position;
        uint32_t entry = plan->chunk_offset[edges[i].chunk];
        uint32_t holder = 0;
        while (plan->holder_worker[entry + holder] != worker)
            holder++;
        plan->slot_chunk[slot] = edges[i].chunk;
        plan->slot_holder[slot] = holder;
        plan->holder_position[entry + holder] = position;
    }
}

tarry_plan *edge_plan_make(uint32_t workers, uint32_t chunks, uint32_t parts, const edge *edges,
                           size_t count, const tarry_allocator *allocator)
{
    tarry_plan *plan = memory_allocate(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return NULL;
    plan->allocator = memory_allocator(allocator);
    plan->workers = workers;
    plan->chunks = plan->origins = chunks;
    plan->origins = chunks;
    plan->pieces = 1;
    plan->parts = parts;
    if (!allocate_arrays(plan, count)) {
        tarry_plan_free(plan);
        return NULL;
    }
    OWNED(edge) sorted = checked_malloc(count * sizeof(*sorted));
    OWNED(uint32_t) cursor = checked_calloc(workers, sizeof(*cursor));
    for (size_t i = 0; i < count; i++)
        sorted[i] = edges[i];
    qsort(sorted, count, sizeof(*sorted), compare_by_chunk);
    fill(plan, edges, sorted, count, cursor);
    return plan;
}

/* The plan whose i-th chunk is at the workers holders[i * replication] and the following. */
static tarry_plan *make_from_holders(uint32_t workers, uint32_t chunks, uint32_t replication,
                                     uint32_t parts, const uint32_t *holders)
{
    size_t count = (size_t)chunks * replication;
    OWNED(edge) edges = checked_malloc(count * sizeof(*edges));
    for (size_t i = 0; i < count; i++)
        edges[i] = (edge){.worker = holders[i], .chunk = (uint32_t)(i / replication)};
    tarry_plan *plan = edge_plan_make(workers, chunks, parts, edges, count, NULL);
    assert_non_null(plan);
    return plan;
}

tarry_plan *edge_plan_cyclic(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts)
{
    OWNED(uint32_t) holders = checked_malloc((size_t)chunks * replication * sizeof(*holders));
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        for (uint32_t k = 0; k < replication; k++)
            holders[(size_t)chunk * replication + k] = (chunk + k) % workers;
    }
    tarry_plan *plan = make_from_holders(workers, chunks, replication, parts, holders);
    return plan;
}

tarry_plan *edge_plan_fractional(uint32_t workers, uint32_t chunks, uint32_t replication,
                                 uint32_t parts)
{
    OWNED(uint32_t) holders = checked_malloc((size_t)chunks * replication * sizeof(*holders));
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t group = chunk % (workers / replication);
        for (uint32_t k = 0; k < replication; k++)
            holders[(size_t)chunk * replication + k] = group * replication + k;
    }
    tarry_plan *plan = make_from_holders(workers, chunks, replication, parts, holders);
    return plan;
}

tarry_plan *edge_plan_random(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts, uint64_t seed)
{
    OWNED(uint32_t) holders = checked_malloc((size_t)chunks * replication * sizeof(*holders));
    OWNED(uint32_t) shuffled = checked_malloc(workers * sizeof(*shuffled));
    random_stream stream = random_stream_make(seed, RANDOM_TEST, workers, chunks);
    for (uint32_t worker = 0; worker < workers; worker++)
        shuffled[worker] = worker;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        random_shuffle(&stream, shuffled, workers);
        for (uint32_t k = 0; k < replication; k++)
            holders[(size_t)chunk * replication + k] = shuffled[k];
    }
    tarry_plan *plan = make_from_holders(workers, chunks, replication, parts, holders);
    return plan;
}

static void draw_columns(double *decode, uint32_t parts, uint32_t workers, random_stream *stream)
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        double square = 0;
        for (uint32_t part = 0; part < parts; part++) {
            double value = random_normal(stream);
            decode[part * workers + worker] = value;
            square += value * value;
        }
        for (uint32_t part = 0; part < parts; part++)
            decode[part * workers + worker] /= sqrt(square);
    }
}

void edge_plan_random_decode(tarry_plan *plan, uint64_t seed)
{
    uint32_t workers = plan->workers;
    plan->decode =
        memory_allocate(&plan->allocator, (size_t)plan->parts * workers, sizeof(*plan->decode));
    assert_non_null(plan->decode);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, workers, plan->parts);
    draw_columns(plan->decode, plan->parts, workers, &stream);
}

tarry_plan_settings plan_settings(uint32_t workers, uint32_t chunks, uint32_t replication,
                                  tarry_design design, tarry_order order, uint64_t seed)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = workers;
    settings.chunks = chunks;
    settings.replication = replication;
    settings.design = design;
    settings.order = order;
    settings.seed = seed;
    return settings;
}

tarry_plan *plan_make(const tarry_plan_settings *settings)
{
    tarry_plan *plan = NULL;
    tarry_diagnostic why = {""};
    assert_ok_or(why, tarry_plan_create(settings, NULL, &plan, &why));
    return plan;
}

tarry_plan *plan_evolve(const tarry_plan *plan, const tarry_plan_evolution *wanted,
                        tarry_plan_changes *changes)
{
    tarry_plan *next = NULL;
    tarry_diagnostic why = {""};
    assert_ok_or(why, tarry_plan_evolve(plan, wanted, NULL, &next, changes, &why));
    return next;
}

tarry_plan *plan_of(uint32_t workers, uint32_t chunks, uint32_t replication, tarry_design design,
                    tarry_order order, uint64_t seed)
{
    const tarry_plan_settings settings =
        plan_settings(workers, chunks, replication, design, order, seed);
    return plan_make(&settings);
}

tarry_plan *plan_drawn(uint32_t workers, uint32_t chunks, uint32_t replication, uint64_t seed)
{
    return plan_of(workers, chunks, replication, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, seed);
}
