/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "edge_plan.h"
#include "evolve_check.h"
#include "failing_allocator.h"
#include "plan/exposure/exposure.h"
#include "seed.h"
#include "test.h"

OWNED_BY(exposure, exposure_free)

enum { WORKERS = 9, SAMPLES = 300, STEPS = 1000000 };

/* Who held each sample, and the least number that no `colluders` workers held: all sets of them. */
typedef struct table {
    uint32_t holders[SAMPLES]; /* a bit per worker */
} table;

static uint64_t enumerate(const table *of, uint32_t colluders, uint64_t *all)
{
    uint64_t least = UINT64_MAX;
    *all = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        *all += of->holders[i] != 0;
    for (uint32_t set = 0; set < UINT32_C(1) << WORKERS; set++) {
        if ((uint32_t)__builtin_popcount(set) > colluders)
            continue;
        uint64_t unheld = 0;
        for (size_t i = 0; i < SAMPLES; i++)
            unheld += of->holders[i] != 0 && (of->holders[i] & set) == 0;
        least = unheld < least ? unheld : least;
    }
    return least;
}

static void assert_bounds(exposure *held, const table *of)
{
    for (uint32_t colluders = 0; colluders <= WORKERS + 1; colluders++) {
        exposure_bound bound, quick;
        uint64_t all, least = enumerate(of, colluders, &all);
        assert_ok(exposure_unheld(held, colluders, STEPS, &bound));
        assert_true(bound.exact);
        assert_int_equal(bound.samples, all);
        assert_int_equal(bound.unheld, least);
        for (uint64_t steps = 0; steps < 300; steps += 1 + steps / 2) {
            assert_ok(exposure_unheld(held, colluders, steps, &quick));
            assert_int_equal(quick.samples, all);
            assert_true(quick.exact ? quick.unheld == least : quick.unheld <= least);
        }
    }
}

static exposure *make(void)
{
    exposure *held;
    assert_ok(exposure_create(NULL, &held));
    return held;
}

TEST(bounds_of_random_ranges_are_those_of_all_sets)
{
    random_stream stream = random_stream_make(test_seed("exposure", 1), RANDOM_TEST, 0, 0);
    for (uint32_t turn = 0; turn < 40; turn++) {
        table of = {{0}};
        OWNED(exposure) held = make();
        const uint32_t ranges = random_below(&stream, 200);
        for (uint32_t i = 0; i < ranges; i++) {
            const uint32_t worker = random_below(&stream, WORKERS);
            const uint32_t begin = random_below(&stream, SAMPLES);
            const uint32_t left = SAMPLES - begin;
            const uint32_t end = begin + random_below(&stream, left < 9 ? left + 1 : 9);
            assert_ok(exposure_add(held, worker, begin, end));
            for (uint32_t k = begin; k < end; k++)
                of.holders[k] |= UINT32_C(1) << worker;
        }
        assert_bounds(held, &of);
    }
}

static void add_to_table(table *of, const tarry_plan *plan, const uint64_t *samples)
{
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
            uint64_t begin, end, base = 0;
            const tarry_span span = tarry_plan_span(plan, chunk, i);
            tarry_span_samples(span, samples[span.origin], &begin, &end);
            for (uint32_t k = 0; k < span.origin; k++)
                base += samples[k];
            for (uint64_t k = begin; k < end; k++)
                for (uint32_t h = 0; h < tarry_plan_replication(plan, chunk); h++)
                    of->holders[base + k] |= UINT32_C(1) << tarry_plan_holder(plan, chunk, h);
        }
    }
}

/* Plans that follow each other as paces change: copies move, chunks are split and merged. */
TEST(bounds_over_several_plans_are_those_of_all_sets)
{
    random_stream stream = random_stream_make(test_seed("exposure", 2), RANDOM_TEST, 0, 0);
    for (uint32_t turn = 0; turn < 10; turn++) {
        uint32_t chunks = 6 + random_below(&stream, 10);
        tarry_plan *plan = plan_drawn(WORKERS, chunks, 1 + random_below(&stream, 3), turn);
        uint64_t samples[16];
        for (uint32_t i = 0; i < chunks; i++)
            samples[i] = random_below(&stream, SAMPLES / 16 + 1);
        table of = {{0}};
        OWNED(exposure) held = make();
        for (uint32_t k = 0; k < 4; k++) {
            add_to_table(&of, plan, samples);
            assert_ok(exposure_add_plan(held, plan, samples));
            assert_bounds(held, &of);
            double pace[WORKERS];
            for (uint32_t j = 0; j < WORKERS; j++)
                pace[j] = 0.2 + random_uniform(&stream) * (random_below(&stream, 3) == 0 ? 8 : 1);
            const tarry_plan_evolution wanted = {.pace = pace, .most_moves = 8};
            tarry_plan *next = plan_evolve(plan, &wanted, NULL);
            tarry_plan_free(plan);
            plan = next;
        }
        tarry_plan_free(plan);
    }
}

TEST(whole_chunks_count_alike_without_sizes)
{
    OWNED(tarry_plan)
    plan = plan_of(WORKERS, WORKERS, 3, TARRY_DESIGN_CYCLIC, TARRY_ORDER_OPTIMAL, 1);
    OWNED(exposure) held = make();
    assert_ok(exposure_add_plan(held, plan, NULL));
    const uint64_t left[] = {9, 6, 3, 0, 0};
    for (uint32_t colluders = 0; colluders < 5; colluders++) {
        exposure_bound bound;
        assert_ok(exposure_unheld(held, colluders, STEPS, &bound));
        assert_true(bound.samples == WORKERS * PLAN_ORIGIN_WEIGHT);
        assert_true(bound.unheld == left[colluders] * PLAN_ORIGIN_WEIGHT);
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const tarry_plan *plan = user;
    const uint64_t samples[40] = {5, 6, 7, 8};
    OWNED(exposure) held = NULL;
    exposure_bound bound;
    int error = exposure_create(allocator, &held);
    if (error == TARRY_OK)
        error = exposure_add_plan(held, plan, samples);
    return error == TARRY_OK ? exposure_unheld(held, 2, STEPS, &bound) : error;
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = plan_drawn(40, 40, 3, 1);
    assert_true(fail_each_allocation(attempt, plan) >= 8);
}
