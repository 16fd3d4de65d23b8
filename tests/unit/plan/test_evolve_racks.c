/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "evolve_check.h"
#include "failing_allocator.h"
#include "rack_check.h"
#include "seed.h"

enum { MOST_WORKERS = 16, MOST_CHUNKS = 128 };

static void draw_paces(random_stream *stream, uint32_t workers, bool deaths, double *pace)
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        pace[worker] = (1 + random_exponential(stream)) * (random_below(stream, 4) ? 1 : 10);
        if (deaths && worker > 0 && random_below(stream, 8) == 0)
            pace[worker] = INFINITY;
    }
}

/* Plans that are spread stay so, whatever moves, splits and merges there are, and the racks stay
 * with them. */
TEST(spread_plans_stay_spread)
{
    random_stream stream = random_stream_make(test_seed("evolve racks", 5), RANDOM_TEST, 0, 0);
    uint32_t moves = 0, cuts = 0;
    for (int trial = 0; trial < 200; trial++) {
        uint32_t workers = 4 + random_below(&stream, 9), size = 1 + random_below(&stream, 4);
        tarry_plan_settings settings =
            plan_settings(workers, 3 * workers, 1 + random_below(&stream, 4), TARRY_DESIGN_RANDOM,
                          TARRY_ORDER_AS_IS, random_u64(&stream));
        settings.rack_size = size;
        tarry_plan *plan = plan_make(&settings);
        for (int round = 0; round < 3; round++) {
            double pace[MOST_WORKERS], cost[MOST_CHUNKS];
            draw_paces(&stream, workers, false, pace);
            assert_true(tarry_plan_chunks(plan) <= MOST_CHUNKS);
            for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
                cost[chunk] = random_below(&stream, 10) ? 1 : 3;
            tarry_plan_changes changes;
            tarry_plan_evolution wanted = {.pace = pace,
                                           .cost = cost,
                                           .most_moves = UINT32_MAX,
                                           .heaviest = 2,
                                           .lightest = 0.5,
                                           .most_chunks = MOST_CHUNKS / 2};
            tarry_plan *next = plan_evolve(plan, &wanted, &changes);
            plan_check_views(next);
            assert_int_equal(tarry_plan_racks(next), tarry_plan_racks(plan));
            for (uint32_t worker = 0; worker < workers; worker++)
                assert_int_equal(tarry_plan_rack(next, worker), tarry_plan_rack(plan, worker));
            assert_true(is_spread(next));
            check_rack_figures(next);
            moves += changes.moved;
            cuts += changes.split + changes.merged;
            tarry_plan_free(plan);
            plan = next;
        }
        tarry_plan_free(plan);
    }
    assert_true(moves > 500 && cuts > 100);
}

/* Racks that become known: copies that share one move on, no more than need be, and what moved is
 * what has another holder. */
TEST(copies_leave_crowded_racks)
{
    random_stream stream = random_stream_make(test_seed("crowded racks", 6), RANDOM_TEST, 0, 0);
    const tarry_design designs[] = {TARRY_DESIGN_RANDOM, TARRY_DESIGN_CYCLIC,
                                    TARRY_DESIGN_FRACTIONAL};
    for (int trial = 0; trial < 100; trial++) {
        uint32_t workers = 4 + random_below(&stream, 9), replication = 2 + random_below(&stream, 3);
        OWNED(tarry_plan)
        plan = plan_of(workers, 2 * workers, replication, designs[trial % 3], TARRY_ORDER_OPTIMAL,
                       random_u64(&stream));
        uint32_t rack[MOST_WORKERS], racks = 2 + random_below(&stream, 3);
        for (uint32_t worker = 0; worker < workers; worker++)
            rack[worker] = random_below(&stream, 8) ? random_below(&stream, racks) : TARRY_NO_RACK;
        tarry_plan_evolution wanted = {.rack = rack, .most_moves = UINT32_MAX};
        tarry_plan_changes changes;
        OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
        plan_check_views(next);
        assert_true(is_spread(next));
        check_rack_figures(next);
        uint32_t moved = 0, crowded = 0;
        for (uint32_t chunk = 0; chunk < 2 * workers; chunk++) {
            bool changed = false;
            for (uint32_t i = 0; i < replication; i++) {
                changed |= !holds(plan, chunk, tarry_plan_holder(next, chunk, i));
                moved += !holds(plan, chunk, tarry_plan_holder(next, chunk, i));
            }
            crowded += changed;
        }
        assert_int_equal(changes.moved, moved);
        assert_true(moved <= crowded * (replication - 1));
        assert_true(near(changes.moved_data, moved));

        wanted.most_moves = 1;
        OWNED(tarry_plan) one = plan_evolve(plan, &wanted, &changes);
        assert_true(changes.moved <= 1);
        /* what the plan has once, it keeps */
        wanted = (tarry_plan_evolution){.most_moves = UINT32_MAX};
        OWNED(tarry_plan) again = plan_evolve(next, &wanted, &changes);
        assert_true(is_spread(again));
        assert_int_equal(tarry_plan_racks(again), tarry_plan_racks(next));
    }
}

/* Racks of 2: when one worker of each of two racks dies and a third rack is left, its copies go
 * where no other copy is, also if a worker elsewhere has more time. */
TEST(copies_of_the_dead_avoid_shared_racks)
{
    random_stream stream = random_stream_make(test_seed("dead racks", 8), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 50; trial++) {
        tarry_plan_settings settings =
            plan_settings(12, 24, 2, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, random_u64(&stream));
        settings.parts = 2;
        settings.rack_size = 3;
        OWNED(tarry_plan) plan = plan_make(&settings);
        double pace[12];
        for (uint32_t worker = 0; worker < 12; worker++)
            pace[worker] = worker < 3 ? INFINITY : 1 + random_uniform(&stream);
        tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX};
        OWNED(tarry_plan) next = plan_evolve(plan, &wanted, NULL);
        for (uint32_t chunk = 0; chunk < 24; chunk++)
            for (uint32_t i = 0; i < 2; i++)
                assert_true(isfinite(pace[tarry_plan_holder(next, chunk, i)]));
        assert_true(is_spread(next));
    }
}

/* With one rack alive two copies must share it: better than to have one. */
TEST(racks_never_keep_a_chunk_from_its_parts)
{
    tarry_plan_settings settings =
        plan_settings(6, 6, 2, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, 1);
    settings.parts = 2;
    settings.rack_size = 3;
    OWNED(tarry_plan) plan = plan_make(&settings);
    const double pace[] = {INFINITY, INFINITY, INFINITY, 1, 1, 1};
    tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX};
    OWNED(tarry_plan) next = plan_evolve(plan, &wanted, NULL);
    for (uint32_t chunk = 0; chunk < 6; chunk++)
        assert_int_equal(copies_in(next, chunk, 1), 2);
}

TEST(racks_out_of_range_are_refused)
{
    tarry_plan_settings settings =
        plan_settings(4, 4, 2, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, 1);
    tarry_plan *plan = plan_make(&settings), *next = NULL;
    const uint32_t rack[] = {0, TARRY_NO_RACK, 4, 0};
    tarry_plan_evolution wanted = {.rack = rack};
    tarry_diagnostic why = {""};
    assert_int_equal(tarry_plan_evolve(plan, &wanted, NULL, &next, NULL, &why),
                     TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "worker 2: rack 4 of 4 workers");
    tarry_plan_free(plan);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const uint32_t rack[] = {0, 0, 1, 1, TARRY_NO_RACK, 0};
    tarry_plan_evolution wanted = {.rack = rack, .most_moves = UINT32_MAX};
    OWNED(tarry_plan) next = NULL;
    return tarry_plan_evolve(user, &wanted, allocator, &next, NULL, NULL);
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = plan_of(6, 6, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    assert_true(fail_each_allocation(attempt, plan) > 20);
}
