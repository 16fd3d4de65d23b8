/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of members that say how long sums took: by the model with other links, and by links that
 * the model does not know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>

#include "route/route_learn.h"

#define MS UINT64_C(1000000)

enum { MEMBERS = 16, TRIAL = ROUTE_LEARN_TRIED + 1 };

/* Connections as they are: what a kind of shape takes beyond the model of route_cost.h is its
 * factor. */
typedef struct world {
    route_learner learner;
    route_links links;
    double factor[ROUTE_LEARN_KINDS];
    double dimension;
    uint32_t members;
    tarry_shape shape;
    uint32_t changes;
} world;

static world begin(uint32_t members, double dimension, route_links links)
{
    world own = {
        .links = links,
        .factor = {0, 1, 1, 1},
        .dimension = dimension,
        .members = members,
    };
    route_learner_init(&own.learner, members, dimension);
    return own;
}

static double time_of(const world *own, tarry_shape shape)
{
    const route of = {shape, own->members};
    double hops_ns = route_hops(&of) * own->links.latency_ns;
    double all_ns = route_time_ns(&of, own->dimension, 1, &own->links);
    return hops_ns + own->factor[shape.kind] * (all_ns - hops_ns);
}

static void choose(world *own)
{
    tarry_shape chosen = route_learn_choose(&own->learner, TARRY_SHAPE_AUTO, own->members, 1);
    own->changes += chosen.kind != own->shape.kind || chosen.rows != own->shape.rows;
    own->shape = chosen;
    route_learn_begin(&own->learner, own->members, 1);
}

/* `sums` of them, of which each member but one says what it took; that one says something else. */
static void sum_with(world *own, uint32_t sums, uint64_t odd_took_ns, uint64_t odd_latency_ns)
{
    for (uint32_t i = 0; i < sums; i++) {
        choose(own);
        double took_ns = time_of(own, own->shape);
        route_learn_told(&own->learner, 0, odd_took_ns, odd_latency_ns);
        for (uint32_t worker = 1; worker < own->members; worker++)
            route_learn_told(&own->learner, worker, (uint64_t)took_ns,
                             (uint64_t)own->links.latency_ns);
    }
}

static void sum(world *own, uint32_t sums)
{
    sum_with(own, sums, UINT64_MAX, 1);
}

static void is_near(double value, double expected, double relative)
{
    assert_true(fabs(value - expected) <= relative * expected);
}

static void links_are_learned(void **state)
{
    (void)state;
    const route_links slow = {.latency_ns = 5e6, .bytes_per_second = 12.5e6, .message_ns = 3e5};
    world own = begin(8, 1e6, slow);
    assert_int_equal(route_learn_known(&own.learner).latency_ns, 0);
    assert_int_equal(route_learn_known(&own.learner).bytes_per_second, 0);
    sum(&own, TRIAL + 1);
    is_near((double)route_learn_known(&own.learner).latency_ns, 5e6, 1e-6);
    is_near((double)route_learn_known(&own.learner).bytes_per_second, 12.5e6, 1e-3);
    is_near(route_learn_links(&own.learner).message_ns, 3e5, 1e-3);
}

/* Of a sum of few numbers there is nothing to be known of bandwidth. */
static void bandwidth_is_known_where_it_counts(void **state)
{
    (void)state;
    route_links far = route_links_usual();
    far.latency_ns = 25e6;
    world own = begin(8, 100, far);
    sum(&own, TRIAL + 1);
    assert_int_equal(route_learn_known(&own.learner).latency_ns, 25 * MS);
    assert_int_equal(route_learn_known(&own.learner).bytes_per_second, 0);
}

/* Without anything told it is the choice of before, of the usual links. */
static void nothing_is_told(void **state)
{
    (void)state;
    const route_links usual = route_links_usual();
    const tarry_shape none = {TARRY_SHAPE_AUTO, 0};
    for (uint32_t members = 1; members <= 4096; members *= 2) {
        route_learner own;
        route_learner_init(&own, members, 1000);
        const tarry_shape chosen = route_choose(TARRY_SHAPE_AUTO, members, 1000, 1, &usual, none);
        for (uint32_t i = 0; i < 3 * TRIAL; i++) {
            tarry_shape shape = route_learn_choose(&own, TARRY_SHAPE_AUTO, members, 1);
            assert_int_equal(shape.kind, chosen.kind);
            assert_int_equal(shape.rows, chosen.rows);
            route_learn_begin(&own, members, 1);
        }
    }
}

/* A thousand members are a grid by the usual links, and direct where a way takes 25 ms. */
static void long_ways_have_few_hops(void **state)
{
    (void)state;
    route_links far = route_links_usual();
    far.latency_ns = 25e6;
    world own = begin(1000, 1000, far);
    choose(&own);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_GRID);
    sum(&own, TRIAL + 1);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
    sum(&own, 40);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
    assert_int_equal(own.changes, 2);
}

static double best_time(const world *own)
{
    double best_ns = fmin(time_of(own, (tarry_shape){TARRY_SHAPE_DIRECT, 0}),
                          time_of(own, (tarry_shape){TARRY_SHAPE_TREE, 0}));
    for (uint32_t rows = 2; rows <= own->members / 2; rows++)
        best_ns = fmin(best_ns, time_of(own, (tarry_shape){TARRY_SHAPE_GRID, rows}));
    return best_ns;
}

/* A change has to be worth it; rows are chosen by one slowness for all that a sum takes. */
static void is_near_the_best(const world *own)
{
    assert_true(ROUTE_STAYS * time_of(own, own->shape) <= 1.1 * best_time(own));
}

/* Messages that take ten milliseconds: direct sums have too many of them. */
static void slow_messages_are_few(void **state)
{
    (void)state;
    route_links busy = route_links_usual();
    busy.message_ns = 1e7;
    world own = begin(8, 1000, busy);
    choose(&own);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
    sum(&own, 3 * TRIAL);
    assert_int_not_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
    is_near_the_best(&own);
}

/* By the model other kinds are better, and in truth they are not: each is tried once in a while. */
static void a_shape_that_disappoints_is_left(void **state)
{
    (void)state;
    route_links busy = route_links_usual();
    busy.message_ns = 1e6;
    world own = begin(8, 1000, busy);
    own.factor[TARRY_SHAPE_TREE] = own.factor[TARRY_SHAPE_GRID] = 20;
    sum(&own, 2 * ROUTE_LEARN_PATIENCE + 3 * TRIAL);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
    assert_int_equal(own.changes, 5);
    sum(&own, ROUTE_LEARN_FORGOTTEN - 2 * ROUTE_LEARN_PATIENCE - 3 * TRIAL);
    assert_int_equal(own.changes, 5);
    sum(&own, ROUTE_LEARN_PATIENCE + 2 * TRIAL);
    assert_int_not_equal(own.changes, 5);
    sum(&own, 2 * TRIAL);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_DIRECT);
}

/* Whatever the links and the numbers are, and where the model is wrong of a kind by a third. */
static void what_is_chosen_is_near_the_best(void **state)
{
    (void)state;
    static const double factors[] = {0.75, 1, 1.33};
    static const double latencies[] = {1e4, 1e6, 5e7}, rates[] = {1e7, 1e9},
                        messages[] = {3e3, 1e6};
    static const double dimensions[] = {10, 1e3, 1e5, 1e7};
    for (uint32_t trial = 0; trial < 3 * 2 * 2 * 4 * 3 * 3; trial++) {
        world own = begin(9, dimensions[trial / 12 % 4],
                          (route_links){.latency_ns = latencies[trial % 3],
                                        .bytes_per_second = rates[trial / 3 % 2],
                                        .message_ns = messages[trial / 6 % 2]});
        own.factor[TARRY_SHAPE_TREE] = factors[trial / 48 % 3];
        own.factor[TARRY_SHAPE_GRID] = factors[trial / 144];
        sum(&own, 3 * (ROUTE_LEARN_PATIENCE + 2 * TRIAL));
        for (uint32_t i = 0; own.learner.since <= ROUTE_LEARN_TRIED && i < 2 * TRIAL; i++)
            sum(&own, 1);
        is_near_the_best(&own);
        assert_true(own.changes <= 8);
    }
}

/* Those who say nonsense, or that they waited for a late one, are a few. */
static void one_member_changes_nothing(void **state)
{
    (void)state;
    const route_links slow = {.latency_ns = 5e6, .bytes_per_second = 12.5e6, .message_ns = 3e5};
    world plain = begin(8, 1e6, slow), late = begin(8, 1e6, slow);
    sum_with(&plain, 20, 3600 * UINT64_C(1000000000), 5 * MS);
    sum_with(&late, 20, UINT64_MAX, UINT64_MAX);
    assert_int_equal(route_learn_known(&plain.learner).latency_ns,
                     route_learn_known(&late.learner).latency_ns);
    assert_int_equal(route_learn_known(&plain.learner).bytes_per_second,
                     route_learn_known(&late.learner).bytes_per_second);
    assert_int_equal(late.changes, plain.changes);
}

/* One sum in five that took much longer, as when a member was stopped in it. */
static void one_sum_changes_nothing(void **state)
{
    (void)state;
    world own = begin(8, 1e6, route_links_usual());
    sum(&own, 20);
    uint32_t before = own.changes;
    for (uint32_t i = 0; i < 4; i++) {
        choose(&own);
        for (uint32_t worker = 0; worker < own.members; worker++)
            route_learn_told(&own.learner, worker, UINT64_C(2000000000), 500 * MS);
        sum(&own, 4);
    }
    assert_int_equal(own.changes, before);
}

/* What half of the members did not end is no measurement. */
static void sums_that_failed_are_not_learned_of(void **state)
{
    (void)state;
    world own = begin(8, 1e6, route_links_usual());
    for (uint32_t i = 0; i < 10; i++) {
        choose(&own);
        for (uint32_t worker = 0; worker < 3; worker++)
            route_learn_told(&own.learner, worker, 5000 * MS, 700 * MS);
    }
    assert_int_equal(own.learner.sums, 0);
    assert_int_equal(route_learn_known(&own.learner).latency_ns, 0);
}

/* The shape that is tried may be none of a smaller group. */
static void members_die_during_a_trial(void **state)
{
    (void)state;
    route_links busy = route_links_usual();
    busy.message_ns = 1e6;
    world own = begin(MEMBERS, 1e5, busy);
    own.factor[TARRY_SHAPE_TREE] = 50;
    for (uint32_t i = 0; i < 5 * TRIAL && own.shape.kind != TARRY_SHAPE_GRID; i++)
        sum(&own, 1);
    assert_int_equal(own.shape.kind, TARRY_SHAPE_GRID);
    for (own.members = MEMBERS - 1; own.members > 0; own.members--) {
        sum(&own, 1);
        assert_true(route_is_legal(own.shape, own.members));
    }
}

/* What is tried may be a shape in which members do not reach each other. */
static void a_trial_whose_sums_fail_is_left(void **state)
{
    (void)state;
    route_links busy = route_links_usual();
    busy.message_ns = 1e6;
    world own = begin(8, 1000, busy);
    own.factor[TARRY_SHAPE_TREE] = own.factor[TARRY_SHAPE_GRID] = 20;
    sum(&own, TRIAL);
    const tarry_shape_kind before = own.shape.kind;
    for (uint32_t i = 0; i < 2 * ROUTE_LEARN_PATIENCE && own.shape.kind == before; i++)
        sum(&own, 1);
    const tarry_shape_kind trial = own.shape.kind;
    assert_int_not_equal(trial, before);
    for (uint32_t i = 0; i <= ROUTE_LEARN_TRIED; i++) {
        choose(&own);
        assert_int_equal(own.shape.kind, trial);
    }
    choose(&own);
    assert_int_equal(own.shape.kind, before);
    for (uint32_t i = 0; i < ROUTE_LEARN_FORGOTTEN / 2; i++) {
        sum(&own, 1);
        assert_int_not_equal(own.shape.kind, trial);
    }
}

/* A kind that is asked for is had, whatever is learned. */
static void a_kind_that_is_asked_for(void **state)
{
    (void)state;
    route_learner own;
    route_learner_init(&own, MEMBERS, 1e6);
    for (uint32_t i = 0; i < 30; i++) {
        const tarry_shape_kind kind = i < 15 ? TARRY_SHAPE_GRID : TARRY_SHAPE_TREE;
        assert_int_equal(route_learn_choose(&own, kind, MEMBERS, 1).kind, kind);
        route_learn_begin(&own, MEMBERS, 1);
        for (uint32_t worker = 0; worker < MEMBERS; worker++)
            route_learn_told(&own, worker, 1000 * MS, 20 * MS);
    }
}

/* More workers than are asked for their latency. */
static void of_many_members_some_are_asked(void **state)
{
    (void)state;
    route_links far = route_links_usual();
    far.latency_ns = 25e6;
    world own = begin(100000, 10, far);
    sum(&own, 3);
    assert_true(own.learner.latencies <= ROUTE_LEARN_ASKED);
    assert_true(own.learner.latencies > ROUTE_LEARN_ASKED / 2);
    assert_int_equal(route_learn_known(&own.learner).latency_ns, 25 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_learned),
        cmocka_unit_test(bandwidth_is_known_where_it_counts),
        cmocka_unit_test(nothing_is_told),
        cmocka_unit_test(long_ways_have_few_hops),
        cmocka_unit_test(slow_messages_are_few),
        cmocka_unit_test(a_shape_that_disappoints_is_left),
        cmocka_unit_test(what_is_chosen_is_near_the_best),
        cmocka_unit_test(one_member_changes_nothing),
        cmocka_unit_test(one_sum_changes_nothing),
        cmocka_unit_test(sums_that_failed_are_not_learned_of),
        cmocka_unit_test(members_die_during_a_trial),
        cmocka_unit_test(a_trial_whose_sums_fail_is_left),
        cmocka_unit_test(a_kind_that_is_asked_for),
        cmocka_unit_test(of_many_members_some_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
