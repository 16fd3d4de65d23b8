/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { TRIES = 4 };

/* The units that a chunk is made of. False: some are cut. */
static bool list_units(const tarry_plan *plan, uint32_t chunk, uint8_t *units)
{
    memset(units, 0, MAX_CHUNKS);
    for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
        tarry_span span = tarry_plan_span(plan, chunk, i);
        if (span.of > GRAIN)
            return false;
        uint32_t each = GRAIN / span.of;
        for (uint32_t unit = span.first * each; unit < (span.first + span.count) * each; unit++)
            units[span.origin] |= (uint8_t)(1U << unit);
    }
    return true;
}

/* False: the plan does not fit into a world. */
static bool fill_in(cluster_plan *it)
{
    bool fits = tarry_plan_chunks(it->plan) <= MAX_CHUNKS;
    for (uint32_t chunk = 0; fits && chunk < tarry_plan_chunks(it->plan); chunk++)
        fits = list_units(it->plan, chunk, it->units[chunk]);
    return fits;
}

void cluster_free_plans(cluster *it)
{
    for (uint32_t i = 0; i < it->plan_count; i++)
        tarry_plan_free(it->plans[i].plan);
    it->plan_count = 0;
    it->last_plan = false;
}

int cluster_first_plan(cluster *it, const tarry_plan_settings *settings)
{
    uint32_t group = it->job.run / CLUSTER_PLAN_RUNS;
    if (it->plan_count > 0 && it->plan_seed == it->job.seed && it->plan_group == group &&
        it->plan_secure == it->job.secure)
        return TARRY_OK;
    cluster_free_plans(it);
    int error = tarry_plan_create(settings, &it->allocator, &it->plans[0].plan, NULL);
    if (error != TARRY_OK)
        return error;
    bool fits = fill_in(&it->plans[0]);
    assert(fits);
    (void)fits;
    it->plan_count = 1;
    it->plan_seed = it->job.seed;
    it->plan_group = group;
    it->plan_secure = it->job.secure;
    return TARRY_OK;
}

/* What changes: chunks of uneven cost, workers of uneven pace, of whom some are gone. */
typedef struct wish {
    tarry_plan_evolution limits;
    double pace[MAX_WORKERS], cost[MAX_CHUNKS];
} wish;

static void draw_wish(const tarry_plan *plan, random_stream *stream, wish *it)
{
    uint32_t workers = tarry_plan_workers(plan), stays = stream_between(stream, 0, workers - 1);
    for (uint32_t worker = 0; worker < workers; worker++) {
        bool gone = stream_chance(stream, 0.15) && worker != stays;
        uint32_t pace = stream_chance(stream, 0.4) ? stream_between(stream, 2, 20) : 1;
        it->pace[worker] = gone ? (double)INFINITY : pace;
    }
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        it->cost[chunk] = stream_between(stream, 1, 3) * (stream_chance(stream, 0.3) ? 8 : 1);
    tarry_plan_evolution_init(&it->limits);
    it->limits.pace = it->pace;
    it->limits.cost = it->cost;
    if (stream_chance(stream, 0.7))
        it->limits.heaviest = 1 + 0.25 * stream_between(stream, 0, 6);
    if (stream_chance(stream, 0.6))
        it->limits.lightest = it->limits.heaviest != 0 ? 0.5 : 1;
    if (stream_chance(stream, 0.7))
        it->limits.most_moves = stream_between(stream, 1, 6);
}

/* The plan after the last one: of several that are drawn, the first that changes and fits. */
static int follow(cluster *it)
{
    cluster_plan *made = &it->plans[it->plan_count];
    const tarry_plan *last = made[-1].plan;
    random_stream stream = draws_of_change(it->plan_seed, it->plan_group, it->plan_count);
    for (int i = 0; i < TRIES; i++) {
        wish wanted;
        tarry_plan_changes changes;
        draw_wish(last, &stream, &wanted);
        int error =
            tarry_plan_evolve(last, &wanted.limits, &it->allocator, &made->plan, &changes, NULL);
        if (error != TARRY_OK)
            return error;
        if (changes.split + changes.merged + changes.moved > 0 && fill_in(made)) {
            it->plan_count++;
            return TARRY_OK;
        }
        tarry_plan_free(made->plan);
    }
    it->last_plan = true;
    return TARRY_OK;
}

int cluster_later_plan(cluster *it, uint32_t number, bool *there)
{
    int error = TARRY_OK;
    if (number == it->plan_count && number < MAX_PLANS && !it->last_plan)
        error = follow(it);
    *there = number < it->plan_count;
    return error;
}

void cluster_take_plan(cluster *it, uint32_t number)
{
    it->number = number;
    it->plan = it->plans[number].plan;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->shapes[worker] = cluster_shape(it, it->plan, worker);
}
