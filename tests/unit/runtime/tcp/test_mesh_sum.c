/* SPDX-License-Identifier: Apache-2.0 */
/* The engine over connections, against the oracle of sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/direct.h>

#include "failing_allocator.h"
#include "mesh_group.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"

enum { FEW = 4, LONG = 50000, LONGER = 400000 };

/* Of every shape: fewer numbers than members, parts with padding, several stripes. */
static void every_member_gets_the_sum(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, parts;
        size_t dimension;
    } shapes[] = {
        {1, 1, 5},    {1, 3, 100},  {2, 1, 1},  {2, 1, LONG},   {3, 2, 7},
        {3, 2, LONG}, {5, 3, 9999}, {8, 1, 20}, {8, 1, LONGER}, {8, 3, LONGER / 2 + 1},
    };
    uint64_t seed = test_seed(__func__, 13);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        mesh_group group;
        mesh_group_make(&group, shapes[i].count, NULL);
        mesh_group_form(&group);
        for (int zeros = 0; zeros < 2; zeros++) {
            sum_case *of = sum_case_make(shapes[i].dimension, shapes[i].parts, shapes[i].count,
                                         zeros != 0, seed + i);
            mesh_group_sum(&group, of);
            sum_case_free(of);
        }
        mesh_group_free(&group);
    }
}

static void groups_follow_each_other(void **state)
{
    (void)state;
    uint64_t seed = test_seed(__func__, 13);
    mesh_group group;
    mesh_group_make(&group, FEW, NULL);
    for (uint64_t round = 0; round < 20; round++) {
        sum_case *of =
            sum_case_make(1000 + 317 * round, (uint32_t)(1 + round % 3), FEW, true, seed + round);
        mesh_group_form(&group);
        mesh_group_sum(&group, of);
        sum_case_free(of);
    }
    mesh_group_free(&group);
}

/* As many bytes as a direct sum has: (1 + 1/l) d (n-1)/n numbers, and no more than 2 % above. */
static void same_group_is_formed_again(void **state)
{
    (void)state;
    mesh_group group;
    sum_case *of = sum_case_make(500, 1, 3, false, 41);
    mesh_group_make(&group, 3, NULL);
    for (int time = 0; time < 3; time++) {
        mesh_group_form(&group);
        for (uint32_t i = 0; i < group.count; i++)
            assert_int_equal(mesh_group_wait(&group, i).state, TARRY_ENGINE_IDLE);
        mesh_group_sum(&group, of);
    }
    /* Who was removed is a member again once the group is formed. */
    float sum[500];
    mesh_remove(group.members[0], 10);
    mesh_group_form(&group);
    group.step++;
    mesh_group_start(&group, 0, of, sum);
    mesh_remove(group.members[0], 1); /* nobody, once it has begun */
    tarry_engine *engine = mesh_engine(group.members[0]);
    tarry_engine_progress progress;
    engine->methods->wait(engine, 0, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    engine->methods->abandon(engine);
    sum_case_free(of);
    mesh_group_free(&group);
}

/* Of a short sum only the first one has a share. */
static void who_has_no_share_needs_nobody_else_without_one(void **state)
{
    enum { SHORT = 10, SHARED = 1000 };
    (void)state;
    mesh_group group;
    sum_case *of = sum_case_make(SHORT, 1, 3, false, 42);
    mesh_group_make(&group, 3, NULL);
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    mesh_remove(group.members[1], 20);
    mesh_group_sum(&group, of);
    sum_case_free(of);
    of = sum_case_make(SHARED, 1, 3, false, 43);
    float sum[SHARED];
    group.step++;
    mesh_group_start(&group, 1, of, sum);
    assert_int_equal(mesh_group_wait(&group, 1).state, TARRY_ENGINE_FAILED);
    assert_int_equal(mesh_group_wait(&group, 1).suspect, 20);
    sum_case_free(of);
    mesh_group_free(&group);
}

static void no_more_is_sent_than_needed(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 2; parts++) {
        mesh_group group;
        sum_case *of = sum_case_make(LONGER, parts, FEW, false, test_seed(__func__, 13));
        mesh_group_make(&group, FEW, NULL);
        mesh_group_form(&group);
        mesh_group_sum(&group, of);
        double most = 1.02 * (1 + 1.0 / parts) * LONGER * (FEW - 1) / FEW * sizeof(float);
        for (uint32_t i = 0; i < FEW; i++) {
            uint64_t moved = mesh_group_wait(&group, i).moved;
            assert_true((double)moved <= most);
            assert_true((double)moved >= most / 1.05);
        }
        mesh_group_free(&group);
        sum_case_free(of);
    }
}

/* Sums behind what stands, at all who are there, and counts what that takes. */
static void sum_behind(mesh_group *group, const sum_case *before, const sum_case *of, size_t whole,
                       float *const *sum)
{
    uint64_t part = (of->dimension - 1) / of->parts + 1, n = of->count;
    sum_watch *watch[FEW];
    group->step++;
    for (uint32_t i = 0; i < n; i++) {
        watch[i] = sum_watch_make(sum[i], of->dimension);
        mesh_group_start_behind(group, i, of, sum[i], whole, watch[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        tarry_engine_progress progress = mesh_group_wait(group, i);
        if (progress.state != TARRY_ENGINE_DONE)
            fail_msg("member %u: state %d: %s", i, progress.state, progress.why);
        sum_case_check_behind(before, of, whole, sum[i]);
        sum_watch_check_behind(watch[i], part, whole);
        sum_watch_free(watch[i]);
        uint64_t left = part + of->dimension - (of->parts + 1) * whole;
        left += 16 * n * (of->parts + 1); /* shares are whole lines */
        assert_true((double)progress.moved <= 1.02 * (double)(sizeof(float) * left * (n - 1) / n));
    }
}

/* A member is gone after the sum, and another one is made behind a part of it. */
static void what_stands_is_neither_sent_nor_summed_again(void **state)
{
    (void)state;
    uint64_t seed = test_seed(__func__, 13);
    for (uint32_t parts = 1; parts <= 3; parts++) {
        mesh_group group;
        float *sum[FEW];
        sum_case *first = sum_case_make(LONGER, parts, FEW, false, ++seed);
        sum_case *second = sum_case_make(LONGER, parts, FEW - 1, parts == 2, ++seed);
        mesh_group_make(&group, FEW, NULL);
        mesh_group_form(&group);
        group.step++;
        for (uint32_t i = 0; i < FEW; i++) {
            sum[i] = calloc(LONGER, sizeof(float));
            assert_non_null(sum[i]);
            mesh_group_start(&group, i, first, sum[i]);
        }
        for (uint32_t i = 0; i < FEW; i++)
            assert_int_equal(mesh_group_wait(&group, i).state, TARRY_ENGINE_DONE);
        mesh_free(group.members[FEW - 1]);
        group.members[FEW - 1] = NULL;
        mesh_group_form(&group);
        layout cut = layout_make(LONGER, parts, 1);
        sum_behind(&group, first, second, layout_stand(&cut, cut.part_length * 2 / 3), sum);
        for (uint32_t i = 0; i < FEW; i++)
            free(sum[i]);
        mesh_group_free(&group);
        sum_case_free(first);
        sum_case_free(second);
    }
}

/* One ends in the middle of a sum: what the others say that they have of it is right. */
static void what_is_said_to_be_whole_is(void **state)
{
    (void)state;
    uint64_t seed = test_seed(__func__, 13);
    for (uint64_t trial = 0; trial < 6; trial++) {
        mesh_group group;
        float *sum[FEW];
        uint32_t parts = (uint32_t)(1 + trial % 2);
        sum_case *first = sum_case_make(LONGER, parts, FEW, false, ++seed);
        sum_case *second = sum_case_make(LONGER, parts, FEW - 1, false, ++seed);
        mesh_group_make(&group, FEW, NULL);
        mesh_group_form(&group);
        group.step++;
        for (uint32_t i = 0; i < FEW; i++) {
            sum[i] = calloc(LONGER, sizeof(float));
            assert_non_null(sum[i]);
            mesh_group_start(&group, i, first, sum[i]);
        }
        tarry_engine_progress progress;
        tarry_engine *watched = mesh_engine(group.members[0]);
        watched->methods->wait(watched, clock_from_now(trial * UINT64_C(1500000)), &progress);
        mesh_free(group.members[FEW - 1]);
        group.members[FEW - 1] = NULL;
        layout cut = layout_make(LONGER, parts, 1);
        size_t whole = cut.part_length;
        for (uint32_t i = 0; i + 1 < FEW; i++) {
            tarry_engine *engine = mesh_engine(group.members[i]);
            engine->methods->wait(engine, 0, &progress);
            bool done = progress.state == TARRY_ENGINE_DONE;
            engine->methods->abandon(engine);
            engine->methods->wait(engine, 0, &progress);
            if (!done && progress.whole < whole)
                whole = (size_t)progress.whole;
        }
        mesh_group_form(&group);
        sum_behind(&group, first, second, layout_stand(&cut, whole), sum);
        for (uint32_t i = 0; i < FEW; i++)
            free(sum[i]);
        mesh_group_free(&group);
        sum_case_free(first);
        sum_case_free(second);
    }
}

/* Whatever was under way when it was abandoned, by whom and when: the next sum is right. */
static void what_is_abandoned_leaves_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed(__func__, 13);
    mesh_group group;
    float *sum[FEW];
    sum_case *of = sum_case_make(LONGER, 2, FEW, false, seed);
    mesh_group_make(&group, FEW, NULL);
    for (uint32_t i = 0; i < FEW; i++) {
        sum[i] = calloc(LONGER, sizeof(float));
        assert_non_null(sum[i]);
    }
    for (uint64_t trial = 0; trial < 8; trial++) {
        mesh_group_form(&group);
        group.step++;
        for (uint32_t i = 0; i < FEW; i++)
            if (trial % 2 == 0 || i != FEW - 1)
                mesh_group_start(&group, i, of, sum[i]);
        tarry_engine *first = mesh_engine(group.members[trial % FEW]);
        tarry_engine_progress progress;
        first->methods->wait(first, clock_from_now(trial * UINT64_C(1000000)), &progress);
        first->methods->abandon(first);
        /* What others still send does not come here any more. */
        memset(sum[trial % FEW], 0, LONGER * sizeof(float));
        sum_case *next = sum_case_make(LONG, 1, FEW, true, seed + trial);
        mesh_group_form(&group);
        mesh_group_sum(&group, next);
        sum_case_free(next);
        for (size_t x = 0; x < LONGER; x++)
            assert_true(sum[trial % FEW][x] == 0);
    }
    for (uint32_t i = 0; i < FEW; i++)
        free(sum[i]);
    mesh_group_free(&group);
    sum_case_free(of);
}

static void sums_are_asked_for_in_order(void **state)
{
    (void)state;
    mesh_group group;
    sum_case *of = sum_case_make(LONG, 1, 2, false, test_seed(__func__, 13));
    float *sum = calloc(LONG, sizeof(float));
    mesh_group_make(&group, 2, NULL);
    tarry_engine *engine = mesh_engine(group.members[0]);
    const tarry_engine_sum asked = {.dimension = 1, .parts = 1};
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_STATE);
    mesh_group_form(&group);
    group.step++;
    mesh_group_start(&group, 0, of, sum);
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_STATE);
    tarry_engine_progress progress;
    engine->methods->wake(engine);
    engine->methods->wait(engine, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    const tarry_engine_member nobody = {.address = (const uint8_t *)"?", .address_size = 1};
    const tarry_engine_group bad = {.epoch = 9, .count = 1, .members = &nobody};
    tarry_diagnostic why;
    assert_int_equal(engine->methods->form(engine, &bad, &why), TARRY_ERROR_ARGUMENT);
    free(sum);
    mesh_group_free(&group);
    sum_case_free(of);
}

/* The whole engine, alone in its group. */
static int sum_alone(void *user, const tarry_allocator *allocator)
{
    static const float part[] = {1, 2}, weights[] = {3};
    float sum[2] = {0};
    tarry_direct_settings settings;
    tarry_engine *engine;
    (void)user;
    tarry_direct_settings_init(&settings);
    settings.no_shared_memory = true;
    int error = tarry_direct_create(&settings, allocator, &engine, NULL);
    if (error != TARRY_OK)
        return error;
    tarry_engine_member own = {.worker = 4};
    uint8_t at[TARRY_ENGINE_ADDRESS_MOST];
    engine->methods->address(engine, at, &own.address_size);
    own.address = at;
    const tarry_engine_group group = {.epoch = 1, .count = 1, .members = &own};
    const tarry_engine_sum asked = {
        .name = {.step = 1},
        .dimension = 2,
        .parts = 1,
        .part = part,
        .weights = weights,
        .sum = sum,
    };
    error = engine->methods->form(engine, &group, NULL);
    if (error == TARRY_OK)
        error = engine->methods->start(engine, &asked);
    if (error == TARRY_OK) {
        tarry_engine_progress progress;
        engine->methods->wait(engine, TARRY_NEVER, &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_DONE);
        assert_true(sum[0] == 3 && sum[1] == 6);
    }
    engine->methods->free(engine);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(sum_alone, NULL) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_gets_the_sum),
        cmocka_unit_test(groups_follow_each_other),
        cmocka_unit_test(same_group_is_formed_again),
        cmocka_unit_test(who_has_no_share_needs_nobody_else_without_one),
        cmocka_unit_test(no_more_is_sent_than_needed),
        cmocka_unit_test(what_stands_is_neither_sent_nor_summed_again),
        cmocka_unit_test(what_is_said_to_be_whole_is),
        cmocka_unit_test(what_is_abandoned_leaves_nothing),
        cmocka_unit_test(sums_are_asked_for_in_order),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
