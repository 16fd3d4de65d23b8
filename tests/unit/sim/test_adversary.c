/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Q_l, the number of chunks that the cluster processes at worst, is what the simulated cluster does
 * process under the worst schedule, and never exceeded. Times come from a trace, so that the test
 * decides when each worker finishes each chunk.
 */
#include <stdio.h>

#include "base/random.h"
#include "edge_plan.h"
#include "plan/plan.h"
#include "seed.h"
#include "test.h"
#include "test_file.h"
#include "world.h"

static void exact_in_parts(world *all, uint32_t workers, uint32_t chunks, uint32_t replication,
                           uint32_t parts)
{
    world_init(all);
    all->plan_settings.workers = workers;
    all->plan_settings.chunks = chunks;
    all->plan_settings.replication = replication;
    all->plan_settings.parts = parts;
    all->settings.server.conditioning_limit = 1e12; /* any l copies will do */
}

/*
 * One step of the trace: the holders of `chunk` outside of the set `complete` get to it and take
 * very long for it; all other work is done at once.
 */
static void write_schedule(FILE *file, const tarry_plan *plan, uint32_t step, uint32_t chunk,
                           unsigned complete)
{
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++)
        for (uint32_t position = 0; position < plan->max_load; position++) {
            double seconds = 0.001;
            for (uint32_t h = 0; h < tarry_plan_replication(plan, chunk); h++)
                if (tarry_plan_holder(plan, chunk, h) == worker &&
                    plan_position(plan, chunk, h) == position && (complete >> h & 1) == 0)
                    seconds = 1000 * (1 + h);
            fprintf(file, "%u,%u,%u,%g\n", step, worker, position, seconds);
        }
}

/* Every chunk, with every choice of l - 1 holders that have it; gives back how many schedules. */
static uint32_t write_schedules(const char *path, const tarry_plan *plan)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "step,worker,chunk,seconds\n");
    uint32_t steps = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        for (unsigned set = 0; set < 1u << tarry_plan_replication(plan, chunk); set++)
            if ((uint32_t)__builtin_popcount(set) == tarry_plan_parts(plan) - 1)
                write_schedule(file, plan, steps++, chunk, set);
    assert_int_equal(fclose(file), 0);
    return steps;
}

static void assert_worst_case(uint32_t workers, uint32_t chunks, uint32_t replication,
                              uint32_t parts, tarry_order order)
{
    char spec[64];
    assert_int_equal(test_file_make(NULL), 0);
    snprintf(spec, sizeof(spec), "trace:%s", test_file);
    OWNED(world) all;
    exact_in_parts(&all, workers, chunks, replication, parts);
    all.plan_settings.order = order;
    OWNED(tarry_plan) plan = plan_make(&all.plan_settings);
    uint32_t schedules = write_schedules(test_file, plan);
    all.spec = spec;
    world_begin(&all);
    assert_int_equal(test_file_remove(NULL), 0);
    uint64_t most = 0, q = tarry_plan_q(plan, parts);
    for (uint32_t round = 0; round < schedules; round++) {
        tarry_round_result result = world_round(&all);
        assert_true(result.exact);
        assert_true(result.copies_computed <= q);
        most = result.copies_computed > most ? result.copies_computed : most;
    }
    printf("m = %u, N = %u, r = %u, l = %u: Q = %lu, the worst of %u schedules %lu\n", workers,
           chunks, replication, parts, (unsigned long)q, schedules, (unsigned long)most);
    assert_int_equal(most, q);
}

TEST(the_adversary_reaches_q)
{
    for (uint32_t parts = 1; parts <= 4; parts++) {
        assert_worst_case(10, 10, 4, parts, TARRY_ORDER_OPTIMAL);
        assert_worst_case(10, 10, 4, parts, TARRY_ORDER_RANDOM);
        assert_worst_case(7, 12, 5, parts, TARRY_ORDER_OPTIMAL);
        assert_worst_case(12, 5, 6, parts, TARRY_ORDER_RANDOM);
    }
}

TEST(no_schedule_exceeds_q)
{
    random_stream stream = random_stream_make(test_seed("schedules", 5), RANDOM_TEST, 0, 0);
    static const char *const specs[] = {"exp:1/chunk", "pareto:0.001,1/chunk", "exp:1",
                                        "pareto:0.01,1+exp:1/chunk"};
    uint64_t rounds = 0;
    double closest = 0;
    for (uint32_t plan = 0; plan < 100; plan++) {
        uint32_t workers = 2 + random_below(&stream, 11), chunks = 1 + random_below(&stream, 15);
        uint32_t replication = 1 + random_below(&stream, workers < 6 ? workers : 6);
        uint32_t parts = 1 + random_below(&stream, replication);
        OWNED(world) all;
        exact_in_parts(&all, workers, chunks, replication, parts);
        all.plan_settings.seed = all.straggler_seed = random_u64(&stream);
        all.plan_settings.order =
            random_below(&stream, 2) == 0 ? TARRY_ORDER_OPTIMAL : TARRY_ORDER_RANDOM;
        all.spec = specs[plan % 4];
        world_begin(&all);
        uint64_t q = tarry_plan_q(all.plan, parts);
        for (int round = 0; round < 100; round++, rounds++) {
            tarry_round_result result = world_round(&all);
            assert_true(result.exact);
            assert_true(result.copies_computed <= q);
            double share = (double)result.copies_computed / (double)q;
            closest = share > closest ? share : closest;
        }
    }
    printf("%lu random schedules: at most %.2f of Q\n", (unsigned long)rounds, closest);
}
