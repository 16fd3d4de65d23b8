/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds in which workers sum among themselves. */
#include "failing_allocator.h"
#include "seed.h"
#include "sim/world.h"
#include "test.h"
#include "world.h"

#define MICROSECOND UINT64_C(1000)

/* m = N equal workers, replication 2, d = 1,200, of which 4 bytes take 4 us. */
static void equal_workers(world *all, uint32_t workers, tarry_sim_way way)
{
    world_init(all);
    all->plan_settings.workers = all->plan_settings.chunks = workers;
    all->plan_settings.replication = 2;
    all->plan_settings.design = TARRY_DESIGN_CYCLIC;
    all->settings.dimension = 1200;
    all->settings.parameter_bytes = 4800;
    all->settings.way = way;
    all->settings.link =
        (tarry_sim_link){.latency_ns = 1000 * MICROSECOND, .bytes_per_second = 1e6};
    all->settings.server_bytes_per_second = 1; /* carries no vector */
    all->settings.server.silence_ns = SECOND;
    all->settings.server.voters_grace_ns = 5 * SECOND;
}

/* All there hold the same state, that of the last sum of the log. */
static void same_state_everywhere(const world *all, const tarry_sum_id *last)
{
    for (uint32_t worker = 0; worker < all->plan_settings.workers; worker++) {
        const sim_worker *node = &all->sim->workers[worker];
        if (!node->there)
            continue;
        assert_int_equal(node->replica.last.step, last->step);
        assert_int_equal(node->replica.last.attempt, last->attempt);
        assert_int_equal(node->replica.last.term, last->term);
    }
}

/* ROUND, a chunk, REPORT, SIGNAL; the sum; HELD, and the log. */
TEST(a_round_takes_its_formula)
{
    for (tarry_sim_way way = TARRY_SIM_RING; way <= TARRY_SIM_DIRECT; way++)
        for (uint32_t parts = 1; parts <= 2; parts++) {
            OWNED(world) all;
            equal_workers(&all, 4, way);
            all.plan_settings.parts = parts;
            all.settings.log_ns = 70 * MICROSECOND;
            world_begin(&all);
            for (uint64_t step = 1; step <= 3; step++) {
                tarry_round_result result = world_round(&all);
                uint64_t sum = way == TARRY_SIM_RING
                                   ? 6 * (1000 + 1200) * MICROSECOND
                                   : (2000 + 3 * (1200 + 1200 / parts)) * MICROSECOND;
                assert_true(result.exact);
                assert_int_equal(result.sum.step, step);
                assert_int_equal(result.voters, 4);
                assert_int_equal(result.signal_ns - result.start_ns,
                                 parts * SECOND + 2000 * MICROSECOND);
                assert_int_equal(result.end_ns - result.signal_ns,
                                 (1000 + 1000 + 70) * MICROSECOND + sum);
                assert_int_equal(result.upload_bytes,
                                 way == TARRY_SIM_RING ? 6 * 4800 : 3 * (4800 + 4800 / parts));
            }
            assert_ok(sim_settle(all.sim));
            same_state_everywhere(&all, &(tarry_sum_id){.step = 3, .term = 1, .attempt = 3});
        }
}

/* In dynamic order and by parts, with stragglers. */
TEST(sums_are_right)
{
    for (uint32_t parts = 1; parts <= 3; parts++) {
        OWNED(world) all;
        equal_workers(&all, 9, TARRY_SIM_DIRECT);
        all.plan_settings.replication = 3;
        all.plan_settings.pieces = 4;
        all.plan_settings.parts = parts;
        all.plan_settings.design = TARRY_DESIGN_RANDOM;
        all.settings.server.pick = TARRY_PICK_SHARE;
        all.spec = "exp:1+slow:1,20";
        all.straggler_seed = test_seed("everywhere", 11);
        world_begin(&all);
        for (int round = 0; round < 5; round++) {
            tarry_round_result result = world_round(&all);
            assert_true(result.exact);
        }
    }
}

/* Workers die in rounds and come back with nothing: they get the state. */
WORLD(the_dead_come_back_and_load)
{
    equal_workers(all, 8, TARRY_SIM_DIRECT);
    all->plan_settings.replication = 4;
    all->plan_settings.design = TARRY_DESIGN_RANDOM;
    all->spec = "exp:1+fail:0.1+rejoin:4";
    all->straggler_seed = test_seed("everywhere", 12);
    world_begin(all);
    uint32_t lost = 0;
    uint64_t step = 0;
    for (int round = 0; round < 60; round++) {
        tarry_round_result result = world_round(all);
        lost += result.workers_lost;
        if (result.error != TARRY_OK)
            continue;
        assert_int_equal(result.sum.step, ++step);
    }
    assert_true(lost > 0);
    assert_true(step > 30);
}

/* One that dies while the sum is made: the others are told, and make another one. */
typedef struct trap {
    world *all;
    bool sprung;
} trap;

static void spring(void *user, uint64_t now, uint32_t node, const tarry_event *event,
                   const tarry_effects *effects)
{
    trap *set = user;
    for (size_t i = 0; i < effects->count && node == 3 && !set->sprung; i++)
        if (effects->items[i].type == TARRY_EFFECT_REDUCE) {
            set->sprung = true;
            sim_event dies = {.kind = SIM_DIES, .node = 3};
            assert_ok(sim_schedule(set->all->sim, now + 100 * MICROSECOND, &dies, NULL));
        }
}

WORLD(a_death_in_the_sum_costs_another_attempt)
{
    equal_workers(all, 6, TARRY_SIM_DIRECT);
    trap set = {.all = all};
    all->settings.observer = spring;
    all->settings.user = &set;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_true(set.sprung);
    assert_true(result.exact);
    assert_int_equal(result.workers_lost, 1);
    assert_int_equal(result.sum.step, 1);
    assert_true(result.sum.attempt > 1);
    assert_int_equal(result.voters, 5);
    assert_ok(sim_settle(all->sim));
    same_state_everywhere(all, &result.sum);
}

TEST(another_plan_goes_on_with_the_state)
{
    OWNED(tarry_plan) same = NULL; /* longer than its world */
    OWNED(world) all;
    equal_workers(&all, 6, TARRY_SIM_DIRECT);
    world_begin(&all);
    world_round(&all);
    assert_ok(tarry_plan_create(&all.plan_settings, NULL, &same, NULL));
    assert_ok(tarry_sim_replan(all.sim, same, NULL));
    tarry_round_result result = world_round(&all);
    assert_true(result.exact);
    assert_int_equal(result.sum.step, 2);
    assert_int_equal(result.voters, 6);
}

WORLD(only_coded_parts_are_summed)
{
    equal_workers(all, 4, TARRY_SIM_DIRECT);
    world_begin(all);
    tarry_sim_settings wrong = all->settings;
    tarry_sim *sim;
    wrong.upload = TARRY_SIM_UPLOAD_EACH;
    assert_int_equal(tarry_sim_create(all->plan, &wrong, NULL, &sim, NULL), TARRY_ERROR_ARGUMENT);
}

WORLD(each_allocation_may_fail)
{
    equal_workers(all, 3, TARRY_SIM_DIRECT);
    world_begin(all);
    fail_each_allocation(world_attempt, all);
}
