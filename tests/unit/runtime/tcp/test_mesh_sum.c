/* SPDX-License-Identifier: Apache-2.0 */
/* The engine over connections, against the oracle of sums. */
#include <stdbool.h>

#include <tarry/direct.h>

#include "failing_allocator.h"
#include "mesh_group.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"
#include "test.h"

enum { FEW = 4, LONG = 50000, LONGER = 400000 };

/* Of every shape: fewer numbers than members, parts with padding, several stripes. */
TEST(every_member_gets_the_sum)
{
    static const struct {
        uint32_t count, parts;
        size_t dimension;
    } shapes[] = {
        {1, 1, 5},    {1, 3, 100},  {2, 1, 1},  {2, 1, LONG},   {3, 2, 7},
        {3, 2, LONG}, {5, 3, 9999}, {8, 1, 20}, {8, 1, LONGER}, {8, 3, LONGER / 2 + 1},
    };
    uint64_t seed = test_seed(__func__, 13);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        OWNED(mesh_group) group;
        mesh_group_begin(&group, shapes[i].count);
        for (int zeros = 0; zeros < 2; zeros++) {
            OWNED(sum_case)
            of = sum_case_make(shapes[i].dimension, shapes[i].parts, shapes[i].count, zeros != 0,
                               seed + i);
            mesh_group_sum(&group, of);
        }
    }
}

/* ---- connections ---- */

static void count_links(mesh *self, void *argument)
{
    uint32_t *count = argument;
    *count = 0;
    for (size_t i = 0; i < self->member_count; i++)
        *count += self->members[i]->link != NULL;
}

/* The one holds a sum that the other one fetches. */
static void fetch(mesh_group *group, uint32_t from, uint32_t to)
{
    enum { LENGTH = 1000 };
    float held[LENGTH], got[LENGTH] = {0};
    const tarry_sum_id sum = {.step = 1, .term = 1, .attempt = 1, .digest = 1};
    exchange *giver = mesh_exchange(group->members[from]);
    exchange *taker = mesh_exchange(group->members[to]);
    exchange_progress progress;
    for (size_t i = 0; i < LENGTH; i++)
        held[i] = (float)i;
    mesh_group_hold(giver, &sum, held, LENGTH);
    mesh_group_fetch(taker, group->workers[from], &sum, got, LENGTH);
    taker->methods->wait(taker, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_memory_equal(got, held, sizeof(got));
    giver->methods->hold(giver, NULL, NULL);
}

/* All know each other; five of eight make a sum. */
TEST(who_is_not_in_the_group_connects_when_it_wants_something)
{
    enum { ALL = 8, MEMBERS = 5 };
    OWNED(sum_case) of = sum_case_make(LONG, 1, MEMBERS, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_make_apart(&group, ALL);
    static const uint8_t plain[WIRE_DIGEST_BYTES];
    for (uint32_t i = 0; i < ALL; i++) {
        uint8_t at[TARRY_ENGINE_ADDRESS_MOST];
        size_t size;
        mesh_own_address(group.members[i], at, &size);
        for (uint32_t other = 0; other < ALL; other++)
            if (other != i)
                assert_ok(mesh_admit(group.members[other], group.workers[i], at, size, plain));
    }
    group.count = MEMBERS;
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t links;
        mesh_do(group.members[i], count_links, &links);
        /* The first one that was admitted was kept while it was the only one. */
        const uint32_t least = i < MEMBERS ? MEMBERS - 1 : 0;
        assert_in_range(links, least, i == 0 ? ALL - 1 : i < MEMBERS ? least : 1);
    }
    fetch(&group, 0, 6); /* one of each two is the one that would not connect by itself */
    fetch(&group, 5, 0);
    fetch(&group, 7, 5);
    fetch(&group, 5, 7);
    fetch(&group, 1, 7);
    mesh_group_sum(&group, of);
    group.count = ALL;
}

MESH_GROUP(groups_follow_each_other)
{
    uint64_t seed = test_seed(__func__, 13);
    mesh_group_make(group, FEW, NULL);
    for (uint64_t round = 0; round < 20; round++) {
        OWNED(sum_case)
        of = sum_case_make(1000 + 317 * round, (uint32_t)(1 + round % 3), FEW, true, seed + round);
        mesh_group_form(group);
        mesh_group_sum(group, of);
    }
}

/* As many bytes as a direct sum has: (1 + 1/l) d (n-1)/n numbers, and no more than 2 % above. */
MESH_GROUP(same_group_is_formed_again)
{
    OWNED(sum_case) of = sum_case_make(500, 1, 3, false, 41);
    mesh_group_make(group, 3, NULL);
    for (int time = 0; time < 3; time++) {
        mesh_group_form(group);
        for (uint32_t i = 0; i < group->count; i++)
            assert_int_equal(mesh_group_wait(group, i).state, TARRY_ENGINE_IDLE);
        mesh_group_sum(group, of);
    }
    /* Who was removed is a member again once the group is formed. */
    mesh_remove(group->members[0], 10);
    mesh_group_form(group);
    group->step++;
    mesh_group_start(group, 0, of);
    mesh_remove(group->members[0], 1); /* nobody, once it has begun */
    tarry_engine *engine = mesh_engine(group->members[0]);
    tarry_engine_progress progress;
    engine->methods->wait(engine, 0, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    engine->methods->abandon(engine);
}

/* Of a short sum only the first one has a share. */
MESH_GROUP(who_has_no_share_needs_nobody_else_without_one)
{
    enum { SHORT = 10, SHARED = 1000 };
    sum_case *of = sum_case_make(SHORT, 1, 3, false, 42);
    mesh_group_begin(group, 3);
    mesh_group_sum(group, of);
    mesh_remove(group->members[1], 20);
    mesh_group_sum(group, of);
    sum_case_free(of);
    of = sum_case_make(SHARED, 1, 3, false, 43);
    group->step++;
    mesh_group_start(group, 1, of);
    assert_int_equal(mesh_group_wait(group, 1).state, TARRY_ENGINE_FAILED);
    assert_int_equal(mesh_group_wait(group, 1).suspect, 20);
    sum_case_free(of);
}

TEST(no_more_is_sent_than_needed)
{
    for (uint32_t parts = 1; parts <= 2; parts++) {
        OWNED(sum_case) of = sum_case_make(LONGER, parts, FEW, false, test_seed(__func__, 13));
        OWNED(mesh_group) group;
        mesh_group_begin(&group, FEW);
        mesh_group_sum(&group, of);
        double most = 1.02 * (1 + 1.0 / parts) * LONGER * (FEW - 1) / FEW * sizeof(float);
        for (uint32_t i = 0; i < FEW; i++) {
            uint64_t moved = mesh_group_wait(&group, i).moved;
            assert_true((double)moved <= most);
            assert_true((double)moved >= most / 1.05);
        }
    }
}

/* One ends in the middle of a sum, earlier and later: the others sum on without it. */
TEST(those_who_are_left_sum_on)
{
    uint64_t seed = test_seed(__func__, 13);
    for (uint64_t trial = 0; trial < 6; trial++) {
        uint32_t parts = (uint32_t)(1 + trial % 2);
        OWNED(sum_case) first = sum_case_make(LONGER, parts, FEW, false, ++seed);
        OWNED(sum_case) second = sum_case_make(LONGER, parts, FEW - 1, trial % 3 == 0, ++seed);
        OWNED(mesh_group) group;
        mesh_group_begin(&group, FEW);
        mesh_group_lose_last(&group, first, trial * UINT64_C(1500000), second);
    }
}

/* Whatever was under way when it was abandoned, by whom and when: the next sum is right. */
TEST(what_is_abandoned_leaves_nothing)
{
    uint64_t seed = test_seed(__func__, 13);
    OWNED(sum_case) of = sum_case_make(LONGER, 2, FEW, false, seed);
    OWNED(mesh_group) group;
    mesh_group_make(&group, FEW, NULL);
    for (uint64_t trial = 0; trial < 8; trial++) {
        mesh_group_form(&group);
        mesh_group_start_but(&group, trial % 2 == 0 ? MESH_GROUP_MOST : FEW - 1, of);
        tarry_engine *first = mesh_engine(group.members[trial % FEW]);
        tarry_engine_progress progress;
        first->methods->wait(first, clock_from_now(trial * UINT64_C(1000000)), &progress);
        first->methods->abandon(first);
        /* What others still send does not come here any more. */
        OWNED(float) left = group.sums[trial % FEW];
        const bool begun = trial % 2 == 0 || trial % FEW != FEW - 1; /* else it is the sum before */
        const size_t length = begun ? LONGER : LONG;
        group.sums[trial % FEW] = NULL;
        memset(left, 0, length * sizeof(float));
        OWNED(sum_case) next = sum_case_make(LONG, 1, FEW, true, seed + trial);
        mesh_group_form(&group);
        mesh_group_sum(&group, next);
        for (size_t x = 0; x < length; x++)
            assert_true(left[x] == 0);
    }
}

TEST(sums_are_asked_for_in_order)
{
    OWNED(sum_case) of = sum_case_make(LONG, 1, 2, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_make(&group, 2, NULL);
    tarry_engine *engine = mesh_engine(group.members[0]);
    const tarry_engine_sum asked = {.dimension = 1, .parts = 1};
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_STATE);
    mesh_group_form(&group);
    group.step++;
    mesh_group_start(&group, 0, of);
    assert_int_equal(engine->methods->start(engine, &asked), TARRY_ERROR_STATE);
    tarry_engine_progress progress;
    engine->methods->wake(engine);
    engine->methods->wait(engine, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
    const tarry_engine_member nobody = {.address = (const uint8_t *)"?", .address_size = 1};
    const tarry_engine_group bad = {.epoch = 9, .count = 1, .members = &nobody};
    tarry_diagnostic why;
    assert_int_equal(engine->methods->form(engine, &bad, &why), TARRY_ERROR_ARGUMENT);
}

/* The whole engine, alone in its group. */
static int sum_alone(void *user, const tarry_allocator *allocator)
{
    static const float part[] = {1, 2}, weights[] = {3};
    float sum[2] = {0};
    tarry_direct_settings settings;
    tarry_engine *engine;
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

TEST(each_allocation_may_fail)
{
    assert_true(fail_each_allocation(sum_alone, NULL) > 4);
}
