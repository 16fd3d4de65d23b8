/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "plan/plan.h"
#include "seed.h"
#include "test.h"

enum { SEQUENCES = 4000, MOST = 10 };

/* By looking: whether every chunk has enough holders that are not among the dead. */
static bool endures(const tarry_plan *plan, uint32_t dead)
{
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t alive = 0;
        for (uint32_t index = 0; index < tarry_plan_replication(plan, chunk); index++)
            alive += (dead >> tarry_plan_holder(plan, chunk, index) & 1) == 0;
        if (alive < tarry_plan_parts(plan))
            return false;
    }
    return true;
}

/*
 * Every set of the dead: share[k] is that of the sets of k workers that are survived, which is the
 * chance that k random deaths are. *any: the most that all sets of so many are survived.
 */
static void enumerate(const tarry_plan *plan, double share[MOST + 1], uint32_t *any)
{
    double sets[MOST + 1] = {0}, survived[MOST + 1] = {0};
    for (uint32_t dead = 0; dead < UINT32_C(1) << plan->workers; dead++) {
        uint32_t size = (uint32_t)__builtin_popcount(dead);
        sets[size]++;
        survived[size] += endures(plan, dead);
    }
    *any = 0;
    for (uint32_t size = 0; size <= plan->workers; size++) {
        share[size] = survived[size] / sets[size];
        if (survived[size] == sets[size])
            *any = size;
    }
}

static void assert_enumerated(const tarry_plan *plan, uint64_t seed)
{
    double share[MOST + 1], expected = 0, sum = 0;
    uint32_t any, endured[SEQUENCES];
    enumerate(plan, share, &any);
    assert_int_equal(tarry_plan_endures(plan), any);
    assert_ok(tarry_plan_endures_random(plan, seed, SEQUENCES, NULL, endured));
    for (uint32_t deaths = 1; deaths <= plan->workers; deaths++) {
        double survived = 0;
        for (uint32_t i = 0; i < SEQUENCES; i++)
            survived += endured[i] >= deaths;
        /* Five standard deviations; none where all or no sets are survived. */
        double deviation = sqrt(share[deaths] * (1 - share[deaths]) / SEQUENCES);
        assert_true(fabs(survived / SEQUENCES - share[deaths]) <= 5 * deviation + 1e-12);
        expected += share[deaths];
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sum += endured[i];
    assert_true(fabs(sum / SEQUENCES - expected) < 0.2);
}

TEST(random_plans_endure_what_enumeration_says)
{
    uint64_t seed = test_seed("endurance", 22);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t workers = 2 + random_below(&stream, MOST - 1);
        uint32_t replication = 1 + random_below(&stream, workers);
        uint32_t parts = 1 + random_below(&stream, replication);
        uint32_t chunks = 1 + random_below(&stream, 12);
        OWNED(tarry_plan) plan = edge_plan_random(workers, chunks, replication, parts, seed + i);
        assert_non_null(plan);
        assert_enumerated(plan, seed + i);
    }
}

/* The least replicated chunk decides on any deaths; workers without chunks may all die. */
TEST(uneven_plans_endure_what_enumeration_says)
{
    const edge edges[] = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {3, 1}};
    OWNED(tarry_plan) plan = edge_plan_make(6, 2, 1, edges, sizeof(edges) / sizeof(edges[0]), NULL);
    assert_non_null(plan);
    assert_int_equal(tarry_plan_endures(plan), 1);
    assert_enumerated(plan, 3);
    plan->parts = 2;
    assert_int_equal(tarry_plan_endures(plan), 0);
    assert_enumerated(plan, 3);
}

/* Groups of workers that hold the same: the mean of the first group's end has a closed form. */
TEST(two_groups_endure_what_the_formula_says)
{
    OWNED(tarry_plan) plan = edge_plan_fractional(4, 4, 2, 1);
    uint32_t endured[SEQUENCES];
    double sum = 0;
    assert_non_null(plan);
    assert_ok(tarry_plan_endures_random(plan, 1, SEQUENCES, NULL, endured));
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sum += endured[i];
    /* One death always is survived; of the second, one of three takes the first one's mate. */
    assert_true(fabs(sum / SEQUENCES - (1 + 2.0 / 3)) < 0.05);
}

TEST(equal_seeds_equal_sequences)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(10, 20, 3, 1);
    uint32_t one[100], again[50], other[100];
    assert_ok(tarry_plan_endures_random(plan, 1, 100, NULL, one));
    assert_ok(tarry_plan_endures_random(plan, 1, 50, NULL, again));
    assert_ok(tarry_plan_endures_random(plan, 2, 100, NULL, other));
    assert_memory_equal(one, again, sizeof(again));
    assert_memory_not_equal(one, other, sizeof(one));
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    uint32_t endured[3];
    return tarry_plan_endures_random(user, 1, 3, allocator, endured);
}

TEST(memory_that_runs_out_is_reported)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(5, 5, 2, 1);
    assert_int_equal(fail_each_allocation(attempt, plan), 2);
}
