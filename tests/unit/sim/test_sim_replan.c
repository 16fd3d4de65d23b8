/* SPDX-License-Identifier: Apache-2.0 */
/* A world that goes on with another plan. */
#include <math.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "sim/world.h"
#include "test.h"
#include "world.h"

enum { CHUNKS = 24 };

static void uneven_world(world *all)
{
    world_init(all);
    all->plan_settings.workers = 8;
    all->plan_settings.chunks = CHUNKS;
    all->settings.server.pick = TARRY_PICK_SHARE;
    all->settings.seed = all->straggler_seed = test_seed("replan", 3);
}

/* By the paces that the server learned, and costs of chunks that are told. */
static tarry_plan *evolved(const world *all, const tarry_plan *plan, const double *cost)
{
    double pace[8];
    for (uint32_t worker = 0; worker < 8; worker++) {
        pace[worker] = tarry_server_pace_ns(tarry_sim_server(all->sim), worker);
        pace[worker] = pace[worker] > 0 ? pace[worker] : 1e9;
    }
    const tarry_plan_evolution wanted = {
        .pace = pace, .cost = cost, .heaviest = 2, .lightest = 0.5, .most_moves = 4};
    return plan_evolve(plan, &wanted, NULL);
}

/* Costs that change from round to round, so that chunks are split and merged all the time. */
static void sums_stay_exact(uint32_t parts)
{
    world all;
    uneven_world(&all);
    all.plan_settings.design = TARRY_DESIGN_FRACTIONAL;
    all.plan_settings.replication = 4;
    all.plan_settings.parts = parts;
    all.spec = "shifted-exp:1,1+jitter:0.1";
    world_begin(&all);
    random_stream stream = random_stream_make(all.settings.seed, RANDOM_TEST, 0, parts);
    tarry_plan *plan = NULL;
    uint32_t most = 0, fewest = UINT32_MAX;
    for (uint64_t round = 0; round < 30; round++) {
        tarry_round_result result = world_round(&all);
        assert_true(result.exact);
        assert_int_equal(result.round, round);
        const tarry_plan *now = plan != NULL ? plan : all.plan;
        uint32_t chunks = tarry_plan_chunks(now);
        most = chunks > most ? chunks : most;
        fewest = chunks < fewest ? chunks : fewest;
        OWNED(double) cost = checked_calloc(chunks, sizeof(*cost));
        for (uint32_t chunk = 0; chunk < chunks; chunk++)
            cost[chunk] = 1e-3 + pow(random_uniform(&stream), 6);
        tarry_plan *next = evolved(&all, now, cost);
        assert_ok(tarry_sim_replan(all.sim, next, NULL));
        tarry_plan_free(plan);
        plan = next;
    }
    assert_true(most > fewest && !tarry_plan_is_original(plan));
    world_end(&all);
    tarry_plan_free(plan);
}

TEST(splits_and_merges_are_exact)
{
    for (uint32_t parts = 1; parts <= 4; parts++)
        sums_stay_exact(parts);
}

/* One plan after the other of the same chunks and holders changes nothing but what is learned. */
WORLD(the_world_goes_on)
{
    uneven_world(all);
    all->spec = "markov:0.2,0.4,3+fail:0.1+rejoin:2+jitter:0.2/chunk";
    all->settings.server.pick = TARRY_PICK_PLAN;
    all->settings.server.silence_ns = SECOND / 2;
    world_begin(all);
    world other = *all;
    assert_ok(tarry_sim_create(all->plan, &all->settings, NULL, &other.sim, NULL));
    for (int round = 0; round < 50; round++) {
        tarry_round_result one, same;
        assert_ok(tarry_sim_round(all->sim, &one));
        assert_ok(tarry_sim_round(other.sim, &same));
        assert_int_equal(one.error, same.error);
        assert_int_equal(one.copies_computed, same.copies_computed);
        assert_int_equal(one.workers_lost, same.workers_lost);
        assert_int_equal(all->sim->now, other.sim->now);
        assert_ok(tarry_sim_replan(other.sim, all->plan, NULL));
    }
    tarry_sim_free(other.sim);
}

/* A chunk costs the same in parts, and a part its share. */
TEST(costs_are_of_original_chunks)
{
    OWNED(tarry_plan) next = NULL; /* longer than its world */
    OWNED(world) all;
    double cost[CHUNKS] = {0};
    uneven_world(&all);
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        cost[chunk] = chunk == 0 ? CHUNKS : 1;
    all.settings.chunk_cost = cost;
    world_begin(&all);
    tarry_round_result whole = world_round(&all);
    assert_true(world_seconds(&whole) >= CHUNKS);
    next = evolved(&all, all.plan, cost);
    assert_true(tarry_plan_chunks(next) > CHUNKS);
    assert_ok(tarry_sim_replan(all.sim, next, NULL));
    tarry_round_result cut = world_round(&all);
    assert_true(world_seconds(&cut) < 0.7 * CHUNKS);
    tarry_sim_bounds before, after;
    assert_ok(tarry_sim_bound(all.plan, &all.settings, 0, 1, NULL, &before));
    assert_ok(tarry_sim_bound(next, &all.settings, 0, 1, NULL, &after));
    assert_true(fabs((double)before.balanced_ns - (double)after.balanced_ns) < 10);
    assert_true(after.matched_ns < before.matched_ns);
}

WORLD(other_plans_are_refused)
{
    uneven_world(all);
    all->plan_settings.parts = 2;
    world_begin(all);
    for (int kind = 0; kind < 3; kind++) {
        tarry_plan_settings settings = all->plan_settings;
        settings.workers += kind == 0;
        settings.chunks += kind == 1;
        settings.parts += kind == 2;
        OWNED(tarry_plan) plan = plan_make(&settings);
        assert_int_equal(tarry_sim_replan(all->sim, plan, NULL), TARRY_ERROR_ARGUMENT);
    }
    assert_true(world_round(all).exact);
}

typedef struct attempt {
    world all;
    tarry_plan *next;
} attempt;

/* Without the memory the world goes on as it was. */
static int try_to_replan(void *user, const tarry_allocator *allocator)
{
    const attempt *of = user;
    tarry_sim *sim;
    tarry_round_result result;
    int error = tarry_sim_create(of->all.plan, &of->all.settings, allocator, &sim, NULL);
    if (error != TARRY_OK)
        return error;
    error = tarry_sim_round(sim, &result);
    if (error == TARRY_OK)
        error = tarry_sim_replan(sim, of->next, NULL);
    if (error == TARRY_OK)
        error = tarry_sim_round(sim, &result);
    tarry_sim_free(sim);
    return error;
}

TEST(missing_memory_is_an_error)
{
    attempt of;
    uneven_world(&of.all);
    world_begin(&of.all);
    world_round(&of.all);
    double cost[CHUNKS] = {0};
    cost[0] = 1;
    of.next = evolved(&of.all, of.all.plan, cost);
    assert_true(fail_each_allocation(try_to_replan, &of) > 100);
    world_end(&of.all);
    tarry_plan_free(of.next);
}
