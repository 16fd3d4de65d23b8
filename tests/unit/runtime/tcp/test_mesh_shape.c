/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over connections in a grid and in two trees: the sum is everybody's to the bit, of as many
 * bytes as the shape has, and a death or a silence in any of its steps ends it rightly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "mesh_group.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"

enum { LONG = 50000, LONGER = 150000 };

static const tarry_shape tree = {TARRY_SHAPE_TREE, 0};

static tarry_shape grid(uint32_t rows)
{
    return (tarry_shape){TARRY_SHAPE_GRID, rows};
}

static void sum_in(uint32_t count, tarry_shape shape, const size_t *dimensions, size_t sums,
                   uint64_t seed)
{
    mesh_group group;
    mesh_group_make(&group, count, NULL);
    group.shape = shape;
    mesh_group_form(&group);
    for (size_t i = 0; i < sums; i++) {
        sum_case *of =
            sum_case_make(dimensions[i], (uint32_t)(1 + i % 3), count, i % 2 == 1, seed + i);
        mesh_group_sum(&group, of);
        sum_case_free(of);
    }
    mesh_group_free(&group);
}

/* From fewer numbers than members to several stripes, of one to three parts. */
static void every_member_gets_the_same_sum(void **state)
{
    (void)state;
    static const size_t dimensions[] = {1, 20, 333, LONG, LONGER / 2 + 1};
    static const uint32_t counts[] = {4, 5, 6, 7, 9};
    uint64_t seed = test_seed(__func__, 13);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (uint32_t rows = 2; rows <= counts[i] / 2; rows++)
            sum_in(counts[i], grid(rows), dimensions, 5, seed + 10 * i);
    for (uint32_t count = 1; count <= 9; count++)
        sum_in(count, tree, dimensions, 5, seed + 1000 + count);
}

static void twelve_and_sixteen_members_get_it_too(void **state)
{
    (void)state;
    static const size_t dimensions[] = {20, 2 * LONGER};
    uint64_t seed = test_seed(__func__, 13);
    sum_in(12, grid(3), dimensions, 2, seed + 30);
    sum_in(MESH_GROUP_MOST, grid(4), dimensions, 2, seed);
    sum_in(MESH_GROUP_MOST, grid(5), dimensions, 2, seed + 10);
    sum_in(MESH_GROUP_MOST, tree, dimensions, 2, seed + 20);
}

/* Of hosts with 2, 5, 1 and 4 members, in any order: each host's have seats beside each other, in
 * the order of their places, and all members have the same seats. */
static void members_of_a_host_sit_beside_each_other(void **state)
{
    (void)state;
    static const uint8_t hosts[] = {3, 2, 9, 2, 4, 9, 2, 9, 3, 2, 9, 2};
    static const uint32_t seats[] = {1, 3, 6, 9, 11, 0, 8, 4, 2, 5, 7, 10};
    enum { COUNT = sizeof(hosts) };
    const tarry_shape shapes[] = {grid(3), grid(5), tree};
    mesh_group group;
    mesh_group_make_on_hosts(&group, COUNT, hosts);
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        group.shape = shapes[k];
        mesh_group_form(&group);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_memory_equal(group.members[i]->sum.route.seats, seats, sizeof(seats));
        sum_case *of = sum_case_make(333, 2, COUNT, false, test_seed(__func__, 13) + k);
        mesh_group_sum(&group, of);
        sum_case_free(of);
    }
    mesh_group_free(&group);
}

static void no_more_is_sent_than_needed(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, rows;
    } shapes[] = {{9, 3}, {7, 3}, {8, 0}};
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++)
        for (uint32_t parts = 1; parts <= 2; parts++) {
            mesh_group group;
            sum_case *of =
                sum_case_make(LONGER, parts, shapes[k].count, false, test_seed(__func__, 13));
            mesh_group_make(&group, shapes[k].count, NULL);
            group.shape = shapes[k].rows > 0 ? grid(shapes[k].rows) : tree;
            mesh_group_form(&group);
            mesh_group_sum(&group, of);
            const route busiest = {group.shape, group.count};
            double most = 0;
            for (uint32_t i = 0; i < group.count; i++) {
                const tarry_engine_progress progress = mesh_group_wait(&group, i);
                double moved = (double)progress.moved;
                most = moved > most ? moved : most;
                assert_true(progress.took_ns > 0);
                assert_in_range(progress.latency_ns, 1, UINT64_C(1000000000)); /* loopback's */
            }
            assert_true(most <= 1.02 * route_bytes(&busiest, LONGER, parts));
            assert_true(most >= 0.98 * route_bytes(&busiest, LONGER, parts));
            mesh_group_free(&group);
            sum_case_free(of);
        }
}

/* The same members in one shape after the other, on the connections that there are. */
static void shapes_follow_each_other(void **state)
{
    (void)state;
    const tarry_shape shapes[] = {grid(2), tree, {TARRY_SHAPE_DIRECT, 0}, grid(3), {0, 0}, tree};
    enum { MEMBERS = 6 };
    mesh_group group;
    uint64_t seed = test_seed(__func__, 13);
    mesh_group_make(&group, MEMBERS, NULL);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        sum_case *of = sum_case_make(LONG, 1, MEMBERS, true, seed + i);
        group.shape = shapes[i];
        mesh_group_form(&group);
        mesh_group_sum(&group, of);
        sum_case_free(of);
    }
    mesh_group_free(&group);
}

static void shapes_that_members_can_not_have_are_refused(void **state)
{
    (void)state;
    mesh_group group;
    uint8_t at[TARRY_ENGINE_ADDRESS_MOST];
    tarry_diagnostic why;
    mesh_group_make(&group, 1, NULL);
    tarry_engine *engine = mesh_engine(group.members[0]);
    tarry_engine_member own = {.worker = 1, .address = at};
    engine->methods->address(engine, at, &own.address_size);
    const tarry_engine_group wrong = {.epoch = 1, .count = 1, .members = &own, .shape = grid(2)};
    assert_int_equal(engine->methods->form(engine, &wrong, &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "group: a shape of 2 rows for 1 members");
    mesh_group_free(&group);
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
    giver->methods->hold(giver, &sum, held, LENGTH);
    taker->methods->fetch(taker, group->workers[from], &sum, got, LENGTH);
    taker->methods->wait(taker, TARRY_NEVER, &progress);
    assert_int_equal(progress.state, EXCHANGE_DONE);
    assert_memory_equal(got, held, sizeof(got));
    giver->methods->hold(giver, NULL, NULL, 0);
}

static void who_has_nothing_for_another_connects_when_it_wants_something(void **state)
{
    enum { MEMBERS = 9 };
    (void)state;
    mesh_group group;
    sum_case *of = sum_case_make(LONG, 1, MEMBERS, false, test_seed(__func__, 13));
    mesh_group_make_apart(&group, MEMBERS);
    group.shape = grid(3);
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint32_t links;
        mesh_do(group.members[i], count_links, &links);
        assert_int_equal(links, 4); /* two of its row, two of its column */
    }
    fetch(&group, 0, 4);
    fetch(&group, 5, 0); /* one of each two is the one that would not connect by itself */
    fetch(&group, 8, 0);
    fetch(&group, 0, 7);
    fetch(&group, 7, 2);
    mesh_group_sum(&group, of);
    group.shape = tree;
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    mesh_group_free(&group);
    sum_case_free(of);
}

/* ---- what stands ---- */

static void start_all(mesh_group *group, const sum_case *of, float **sum, size_t whole,
                      uint32_t idle)
{
    group->step++;
    for (uint32_t i = 0; i < group->count; i++)
        if (i != idle && group->members[i] != NULL)
            mesh_group_start_behind(group, i, of, sum[i], whole, NULL);
}

static void allocate_sums(float **sum, uint32_t count, size_t dimension)
{
    for (uint32_t i = 0; i < count; i++) {
        sum[i] = calloc(dimension, sizeof(float));
        assert_non_null(sum[i]);
    }
}

static void free_sums(float **sum, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(sum[i]);
}

/* The numbers before `whole` of each part are the first sum's, and those behind it near the
 * second's; all the same at both. */
static void check_behind(const float *before, const sum_case *of, size_t whole, float *sum)
{
    size_t length = (of->dimension - 1) / of->parts + 1;
    for (size_t x = 0; x < of->dimension; x++)
        if (x % length < whole) {
            assert_memory_equal(&sum[x], &before[x], sizeof(float));
            sum[x] = of->sum[x];
        }
    sum_case_check_near(of, sum);
}

static void end_in_the_middle(tarry_shape shape, uint32_t count, uint32_t dies, uint64_t trial,
                              uint64_t seed)
{
    enum { NOBODY = MESH_GROUP_MOST };
    mesh_group group;
    float *sum[MESH_GROUP_MOST];
    uint32_t parts = (uint32_t)(1 + trial % 2);
    sum_case *first = sum_case_make(LONGER, parts, count, false, seed);
    sum_case *second = sum_case_make(LONGER, parts, count - 1, false, seed + 1);
    mesh_group_make(&group, count, NULL);
    group.shape = shape;
    mesh_group_form(&group);
    allocate_sums(sum, count, LONGER);
    start_all(&group, first, sum, 0, NOBODY);
    tarry_engine_progress progress;
    tarry_engine *watched = mesh_engine(group.members[(dies + 1) % count]);
    watched->methods->wait(watched, clock_from_now(trial * UINT64_C(2000000)), &progress);
    mesh_free(group.members[dies]);
    layout cut = layout_make(LONGER, parts, 1);
    size_t whole = cut.part_length;
    for (uint32_t i = 0; i < count; i++) {
        if (i == dies)
            continue;
        tarry_engine *engine = mesh_engine(group.members[i]);
        engine->methods->wait(engine, 0, &progress);
        bool done = progress.state == TARRY_ENGINE_DONE;
        engine->methods->abandon(engine);
        engine->methods->wait(engine, 0, &progress);
        if (!done && progress.whole < whole)
            whole = (size_t)progress.whole;
    }
    whole = layout_stand(&cut, whole);
    /* Those who are left move together. */
    free(sum[dies]);
    for (uint32_t i = dies; i + 1 < count; i++) {
        group.members[i] = group.members[i + 1];
        group.workers[i] = group.workers[i + 1];
        sum[i] = sum[i + 1];
    }
    group.count--;
    group.shape = route_is_legal(shape, group.count) ? shape : tree;
    mesh_group_form(&group);
    float *before = malloc(LONGER * sizeof(float));
    assert_non_null(before);
    memcpy(before, sum[0], LONGER * sizeof(float));
    start_all(&group, second, sum, whole, NOBODY);
    for (uint32_t i = 0; i < group.count; i++) {
        progress = mesh_group_wait(&group, i);
        if (progress.state != TARRY_ENGINE_DONE)
            fail_msg("trial %u of %u members: member %u: state %d: %s", (unsigned)trial, count, i,
                     progress.state, progress.why);
    }
    for (uint32_t i = 1; i < group.count; i++)
        assert_memory_equal(sum[i], sum[0], LONGER * sizeof(float));
    check_behind(before, second, whole, sum[0]);
    free(before);
    free_sums(sum, group.count);
    mesh_group_free(&group);
    sum_case_free(first);
    sum_case_free(second);
}

/* Whatever was under way, the others sum on behind what all of them have. */
static void one_ends_in_the_middle_of_a_sum(void **state)
{
    (void)state;
    uint64_t seed = test_seed(__func__, 13);
    for (uint64_t trial = 0; trial < 3; trial++) {
        end_in_the_middle(grid(2), 6, (uint32_t)trial, trial, seed + 10 * trial);
        end_in_the_middle(grid(3), 7, (uint32_t)(6 - trial), trial, seed + 10 * trial + 3);
        end_in_the_middle(tree, 7, (uint32_t)trial, trial, seed + 10 * trial + 6);
    }
}

/* ---- silence ---- */

typedef struct neighbours {
    uint32_t of;
    bool are;
} neighbours;

static void look_at_neighbour(mesh *self, void *argument)
{
    neighbours *its = argument;
    its->are = mesh_is_neighbour(&self->sum, its->of);
}

/* As if the limit had passed since something moved last, and all but the idle one had given signs
 * of life meanwhile. */
static void look_late(mesh *self, void *argument)
{
    mesh_sum *sum = &self->sum;
    const uint32_t *idle = argument;
    uint64_t due_ns = sum->pace.moved_ns + sum->pace.limit_ns;
    for (uint32_t i = 0; i < sum->count; i++)
        if (i != *idle)
            sum->intake[i].came_ns = due_ns - 1;
    mesh_watch_look(self, due_ns);
    mesh_watch_look(self, due_ns + MESH_PACE_AGAIN_NS);
}

typedef struct standing {
    uint64_t moved_ns;
} standing;

static void look_at_pace(mesh *self, void *argument)
{
    standing *its = argument;
    its->moved_ns = self->sum.pace.moved_ns;
}

/* Nothing moves at anybody any more. */
static void wait_until_all_stand(const mesh_group *group, uint32_t idle)
{
    enum { QUIET = 30 };
    for (int quiet = 0; quiet < QUIET; quiet++)
        for (uint32_t i = 0; i < group->count; i++) {
            standing before, after;
            tarry_engine *engine = mesh_engine(group->members[i]);
            tarry_engine_progress progress;
            if (i == idle)
                continue;
            mesh_do(group->members[i], look_at_pace, &before);
            engine->methods->wait(engine, clock_from_now(1000000), &progress);
            mesh_do(group->members[i], look_at_pace, &after);
            quiet = before.moved_ns == after.moved_ns ? quiet : 0;
        }
}

static void only_the_silent_one_is_suspected(tarry_shape shape, uint32_t count, uint32_t idle)
{
    mesh_group group;
    float *sum[MESH_GROUP_MOST];
    sum_case *of = sum_case_make(LONGER, 1, count, false, test_seed(__func__, 13));
    mesh_group_make(&group, count, NULL);
    group.shape = shape;
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    allocate_sums(sum, count, LONGER);
    start_all(&group, of, sum, 0, idle);
    wait_until_all_stand(&group, idle);
    uint32_t near = 0, far = 0;
    for (uint32_t i = 0; i < count; i++) {
        neighbours its = {.of = idle};
        if (i == idle)
            continue;
        mesh_do(group.members[i], look_at_neighbour, &its);
        mesh_do(group.members[i], look_late, &idle);
        tarry_engine *engine = mesh_engine(group.members[i]);
        tarry_engine_progress progress;
        engine->methods->wait(engine, 0, &progress);
        assert_int_equal(progress.state, its.are ? TARRY_ENGINE_FAILED : TARRY_ENGINE_RUNNING);
        assert_int_equal(progress.suspect, its.are ? 10 * idle : TARRY_ENGINE_NOBODY);
        near += its.are;
        far += !its.are;
    }
    assert_true(near > 0 && far > 0);
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    free_sums(sum, count);
    mesh_group_free(&group);
    sum_case_free(of);
}

static void who_is_kept_waiting_is_not_suspected(void **state)
{
    (void)state;
    only_the_silent_one_is_suspected(grid(3), 9, 4);
    only_the_silent_one_is_suspected(grid(2), 7, 0);
    only_the_silent_one_is_suspected(tree, 9, 2);
    only_the_silent_one_is_suspected(tree, 9, 5);
}

static void look_at_its_limits(mesh *self, void *argument)
{
    mesh_sum *sum = &self->sum;
    uint64_t due_ns = sum->pace.moved_ns + 3 * sum->pace.limit_ns;
    (void)argument;
    for (uint32_t i = 0; i < sum->count; i++)
        sum->intake[i].came_ns = due_ns - 1;
    mesh_watch_look(self, due_ns);
    mesh_watch_look(self, due_ns + MESH_PACE_AGAIN_NS);
}

/* All say that they are there: the sum ends all the same, and nobody is to blame. */
static void a_sum_that_stands_for_three_limits_ends(void **state)
{
    (void)state;
    mesh_group group;
    float *sum[MESH_GROUP_MOST];
    sum_case *of = sum_case_make(LONG, 1, 4, false, test_seed(__func__, 13));
    mesh_group_make(&group, 4, NULL);
    group.shape = grid(2);
    mesh_group_form(&group);
    allocate_sums(sum, 4, LONG);
    start_all(&group, of, sum, 0, 3);
    wait_until_all_stand(&group, 3);
    mesh_do(group.members[0], look_at_its_limits, NULL);
    tarry_engine_progress progress = mesh_group_wait(&group, 0);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, TARRY_ENGINE_NOBODY);
    assert_string_equal(progress.why, "nothing has moved for three silence limits");
    free_sums(sum, 4);
    mesh_group_free(&group);
    sum_case_free(of);
}

typedef struct heard {
    uint32_t of;
    uint64_t came_ns;
} heard;

static void look_at_came(mesh *self, void *argument)
{
    heard *its = argument;
    its->came_ns = self->sum.intake[its->of].came_ns;
}

static void give_a_sign(mesh *self, void *argument)
{
    (void)argument;
    mesh_watch_look(self, self->sum.sign_ns);
}

static void who_waits_says_that_it_is_there(void **state)
{
    (void)state;
    mesh_group group;
    float *sum[MESH_GROUP_MOST];
    sum_case *of = sum_case_make(LONG, 1, 4, false, test_seed(__func__, 13));
    mesh_group_make(&group, 4, NULL);
    group.shape = grid(2);
    mesh_group_form(&group);
    allocate_sums(sum, 4, LONG);
    start_all(&group, of, sum, 0, 3);
    wait_until_all_stand(&group, 3);
    heard before = {.of = 1}, after = {.of = 1};
    mesh_do(group.members[0], look_at_came, &before);
    mesh_do(group.members[1], give_a_sign, NULL);
    do {
        tarry_engine_progress progress;
        tarry_engine *engine = mesh_engine(group.members[0]);
        engine->methods->wait(engine, clock_from_now(1000000), &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
        mesh_do(group.members[0], look_at_came, &after);
    } while (after.came_ns == before.came_ns);
    mesh_group_start(&group, 3, of, sum[3]);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(mesh_group_wait(&group, i).state, TARRY_ENGINE_DONE);
    free_sums(sum, 4);
    mesh_group_free(&group);
    sum_case_free(of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_gets_the_same_sum),
        cmocka_unit_test(twelve_and_sixteen_members_get_it_too),
        cmocka_unit_test(members_of_a_host_sit_beside_each_other),
        cmocka_unit_test(no_more_is_sent_than_needed),
        cmocka_unit_test(shapes_follow_each_other),
        cmocka_unit_test(shapes_that_members_can_not_have_are_refused),
        cmocka_unit_test(who_has_nothing_for_another_connects_when_it_wants_something),
        cmocka_unit_test(one_ends_in_the_middle_of_a_sum),
        cmocka_unit_test(who_is_kept_waiting_is_not_suspected),
        cmocka_unit_test(a_sum_that_stands_for_three_limits_ends),
        cmocka_unit_test(who_waits_says_that_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
