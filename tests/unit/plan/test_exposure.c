/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "evolve_check.h"
#include "failing_allocator.h"
#include "plan/exposure/exposure.h"
#include "seed.h"

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

static void assert_bounds(const exposure *held, const table *of)
{
    for (uint32_t colluders = 0; colluders <= WORKERS + 1; colluders++) {
        exposure_bound bound, quick;
        uint64_t all, least = enumerate(of, colluders, &all);
        assert_int_equal(exposure_unheld(held, colluders, STEPS, &bound), TARRY_OK);
        assert_true(bound.exact);
        assert_int_equal(bound.samples, all);
        assert_int_equal(bound.unheld, least);
        for (uint64_t steps = 0; steps < 300; steps += 1 + steps / 2) {
            assert_int_equal(exposure_unheld(held, colluders, steps, &quick), TARRY_OK);
            assert_int_equal(quick.samples, all);
            assert_true(quick.exact ? quick.unheld == least : quick.unheld <= least);
        }
    }
}

static exposure *make(void)
{
    exposure *held;
    assert_int_equal(exposure_create(WORKERS, NULL, &held), TARRY_OK);
    return held;
}

static void bounds_of_random_ranges_are_those_of_all_sets(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("exposure", 1), RANDOM_TEST, 0, 0);
    for (uint32_t turn = 0; turn < 40; turn++) {
        table of = {{0}};
        exposure *held = make();
        const uint32_t ranges = random_below(&stream, 200);
        for (uint32_t i = 0; i < ranges; i++) {
            const uint32_t worker = random_below(&stream, WORKERS);
            const uint32_t begin = random_below(&stream, SAMPLES);
            const uint32_t left = SAMPLES - begin;
            const uint32_t end = begin + random_below(&stream, left < 9 ? left + 1 : 9);
            assert_int_equal(exposure_add(held, worker, begin, end), TARRY_OK);
            for (uint32_t k = begin; k < end; k++)
                of.holders[k] |= UINT32_C(1) << worker;
        }
        assert_bounds(held, &of);
        exposure_free(held);
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
static void bounds_over_several_plans_are_those_of_all_sets(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("exposure", 2), RANDOM_TEST, 0, 0);
    for (uint32_t turn = 0; turn < 10; turn++) {
        tarry_plan_settings settings;
        tarry_plan_settings_init(&settings);
        settings.workers = WORKERS;
        settings.chunks = 6 + random_below(&stream, 10);
        settings.replication = 1 + random_below(&stream, 3);
        settings.seed = turn;
        tarry_plan *plan;
        assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
        uint64_t samples[16];
        for (uint32_t i = 0; i < settings.chunks; i++)
            samples[i] = random_below(&stream, SAMPLES / 16 + 1);
        table of = {{0}};
        exposure *held = make();
        for (uint32_t k = 0; k < 4; k++) {
            add_to_table(&of, plan, samples);
            assert_int_equal(exposure_add_plan(held, plan, samples), TARRY_OK);
            assert_bounds(held, &of);
            double pace[WORKERS];
            for (uint32_t j = 0; j < WORKERS; j++)
                pace[j] = 0.2 + random_uniform(&stream) * (random_below(&stream, 3) == 0 ? 8 : 1);
            tarry_plan_evolution wanted;
            tarry_plan_evolution_init(&wanted);
            wanted.pace = pace;
            wanted.most_moves = 8;
            tarry_plan *next = evolve(plan, &wanted, NULL);
            tarry_plan_free(plan);
            plan = next;
        }
        exposure_free(held);
        tarry_plan_free(plan);
    }
}

static void whole_chunks_count_alike_without_sizes(void **state)
{
    (void)state;
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = WORKERS;
    settings.replication = 3;
    settings.design = TARRY_DESIGN_CYCLIC;
    tarry_plan *plan;
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
    exposure *held = make();
    assert_int_equal(exposure_add_plan(held, plan, NULL), TARRY_OK);
    const uint64_t left[] = {9, 6, 3, 0, 0};
    for (uint32_t colluders = 0; colluders < 5; colluders++) {
        exposure_bound bound;
        assert_int_equal(exposure_unheld(held, colluders, STEPS, &bound), TARRY_OK);
        assert_true(bound.samples == WORKERS * PLAN_ORIGIN_WEIGHT);
        assert_true(bound.unheld == left[colluders] * PLAN_ORIGIN_WEIGHT);
    }
    exposure_free(held);
    tarry_plan_free(plan);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const tarry_plan *plan = user;
    const uint64_t samples[40] = {5, 6, 7, 8};
    exposure *held;
    exposure_bound bound;
    int error = exposure_create(tarry_plan_workers(plan), allocator, &held);
    if (error != TARRY_OK)
        return error;
    error = exposure_add_plan(held, plan, samples);
    if (error == TARRY_OK)
        error = exposure_unheld(held, 2, STEPS, &bound);
    exposure_free(held);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = 40;
    settings.chunks = 40;
    tarry_plan *plan;
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
    assert_true(fail_each_allocation(attempt, plan) >= 8);
    tarry_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_random_ranges_are_those_of_all_sets),
        cmocka_unit_test(bounds_over_several_plans_are_those_of_all_sets),
        cmocka_unit_test(whole_chunks_count_alike_without_sizes),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
