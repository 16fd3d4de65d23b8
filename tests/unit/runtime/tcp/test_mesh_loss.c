/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over connections of which a member ends, says nothing, or loses its connection. */
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>

#include "mesh_group.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"
#include "seed.h"
#include "test.h"

enum { FEW = 4, LONG = 50000, LONGER = 400000 };

/* It never gives a sum of some, and the others go on without the one that died. */
TEST(a_member_that_ends_fails_the_sum)
{
    OWNED(sum_case) of = sum_case_make(LONGER, 1, FEW, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_begin(&group, FEW);
    mesh_group_sum(&group, of); /* all are connected, so that all hear of the end */
    mesh_group_start_but(&group, 1, of);
    mesh_free(group.members[1]);
    group.members[1] = NULL;
    for (uint32_t i = 0; i < FEW; i++) {
        if (i == 1)
            continue;
        tarry_engine_progress progress = mesh_group_wait(&group, i);
        assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
        assert_int_equal(progress.suspect, 10);
        assert_non_null(strstr(progress.why, "worker 10: "));
    }
    mesh_group_form(&group);
}

static void is_dropped_at_once(size_t dimension)
{
    enum { TWO = 2 };
    OWNED(sum_case) of = sum_case_make(dimension, 1, TWO, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_begin(&group, TWO);
    mesh_group_sum(&group, of);
    group.step++;
    mesh_group_start(&group, 0, of);
    mesh_remove(group.members[0], 10);
    tarry_engine_progress progress = mesh_group_wait(&group, 0);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 10);
}

TEST(one_that_is_removed_is_dropped_at_once)
{
    is_dropped_at_once(LONG);
    is_dropped_at_once(1); /* it has no share of the sum, but a coded part */
}

/* ---- sums that stand still ---- */

enum { LOOKS = 3 };

/* As if time had passed since something moved last: the member's thread looks whether its sum still
 * moves, and gives it up at the second look that finds it does not. */
static void look_late(mesh *self, void *argument)
{
    const mesh_pace *pace = &self->sum.pace;
    bool *ran = argument; /* before each look */
    uint64_t due_ns = pace->moved_ns + pace->limit_ns,
             looks[LOOKS] = {due_ns - 1, due_ns, due_ns + MESH_PACE_AGAIN_NS};
    for (size_t i = 0; i < LOOKS; i++) {
        ran[i] = self->sum.runs;
        mesh_watch_look(self, looks[i]);
    }
}

static void look_long_after(const mesh_group *group, uint32_t place)
{
    bool ran[LOOKS];
    mesh_do(group->members[place], look_late, ran);
    for (size_t i = 0; i < LOOKS; i++)
        assert_true(ran[i]);
}

typedef struct arrivals {
    uint32_t idle; /* nothing is expected of it */
    bool all;
} arrivals;

static bool has_come(const mesh_sum *sum, uint32_t place)
{
    return place == sum->place || mesh_flow_is_over(sum, &sum->intake[place].coded);
}

/* Whether what the others send before the idle one begins is in. */
static void count_arrivals(mesh *self, void *argument)
{
    const mesh_sum *sum = &self->sum;
    arrivals *its = argument;
    its->all = true;
    for (uint32_t i = 0; i < sum->count; i++)
        if (i != its->idle && i != sum->place)
            its->all = its->all && sum->intake[i].begun && has_come(sum, i);
}

static void wait_for_all_but(const mesh_group *group, uint32_t idle, uint32_t watcher)
{
    arrivals its = {.idle = idle};
    while (!its.all) {
        tarry_engine *engine = mesh_engine(group->members[watcher]);
        tarry_engine_progress progress;
        engine->methods->wait(engine, clock_from_now(1000000), &progress);
        assert_int_equal(progress.state, TARRY_ENGINE_RUNNING);
        mesh_do(group->members[watcher], count_arrivals, &its);
    }
}

static void is_suspected(size_t dimension, uint32_t idle, uint32_t watcher)
{
    char said[64];
    OWNED(sum_case) of = sum_case_make(dimension, 1, FEW, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_begin(&group, FEW);
    mesh_group_sum(&group, of);
    mesh_group_start_but(&group, idle, of);
    wait_for_all_but(&group, idle, watcher);
    look_long_after(&group, watcher);
    tarry_engine_progress progress = mesh_group_wait(&group, watcher);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 10 * idle);
    snprintf(said, sizeof(said), "worker %u: nothing has moved", (unsigned)(10 * idle));
    assert_non_null(strstr(progress.why, said));
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
}

TEST(who_never_begins_is_suspected)
{
    is_suspected(LONG, 0, FEW - 1);
    is_suspected(1, FEW - 1, 0); /* it has no share of the sum, but a coded part */
}

typedef struct company {
    uint32_t place;
    bool linked;
} company;

static void look_at_link(mesh *self, void *argument)
{
    company *its = argument;
    its->linked = mesh_is_linked(self->sum.members[its->place]);
}

/* Two say nothing, one of which may have heard of the other's end. */
TEST(who_is_not_connected_is_suspected_first)
{
    enum { THREE = 3, GONE = 1, WATCHER = 2 };
    company its = {.place = GONE, .linked = true};
    OWNED(sum_case) of = sum_case_make(LONG, 1, THREE, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_begin(&group, THREE);
    mesh_group_sum(&group, of);
    mesh_remove(group.members[GONE], 10 * WATCHER); /* it knows the watcher no more */
    while (its.linked)
        mesh_do(group.members[WATCHER], look_at_link, &its);
    group.step++;
    mesh_group_start(&group, WATCHER, of);
    look_long_after(&group, WATCHER);
    tarry_engine_progress progress = mesh_group_wait(&group, WATCHER);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 10 * GONE);
}

/* The timer itself. */
TEST(a_sum_that_stands_still_ends)
{
    enum { TWO = 2 };
    OWNED(sum_case) of = sum_case_make(LONG, 1, TWO, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_make_limited(&group, TWO, 20000000);
    mesh_group_form(&group);
    group.step++;
    mesh_group_start(&group, 0, of);
    tarry_engine_progress progress = mesh_group_wait(&group, 0);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 10);
}

typedef struct stopped {
    sem_t stands, goes_on;
} stopped;

/* A state is wanted of it: its thread stands here, and reads and sends nothing. */
static void stand(void *user)
{
    stopped *its = user;
    sem_post(&its->stands);
    sem_wait(&its->goes_on);
}

TEST(who_stops_reading_is_suspected)
{
    enum { TWO = 2 };
    mesh_group group;
    stopped its;
    const tarry_sum_id none = {0};
    OWNED(sum_case) of = sum_case_make(LONGER, 1, TWO, false, test_seed(__func__, 13));
    sem_init(&its.stands, 0, 0);
    sem_init(&its.goes_on, 0, 0);
    mesh_group_make(&group, TWO, NULL);
    exchange *taker = mesh_exchange(group.members[0]), *giver = mesh_exchange(group.members[1]);
    giver->methods->serve(giver, stand, &its);
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    group.step++;
    for (uint32_t i = TWO; i-- > 0;) {
        if (i == 0) {
            assert_ok(taker->methods->load(taker, 10, &none));
            sem_wait(&its.stands);
        }
        mesh_group_start(&group, i, of);
    }
    look_long_after(&group, 0);
    tarry_engine_progress progress = mesh_group_wait(&group, 0);
    assert_int_equal(progress.state, TARRY_ENGINE_FAILED);
    assert_int_equal(progress.suspect, 10);
    sem_post(&its.goes_on);
    taker->methods->abandon(taker);
    mesh_group_form(&group);
    mesh_group_sum(&group, of);
    mesh_group_free(&group);
    sem_destroy(&its.stands);
    sem_destroy(&its.goes_on);
}

/* ---- connections that break ---- */

/* Of two members. */
typedef struct breaking {
    uint64_t bytes; /* sent in the sum that runs, before the connection is to break */
    bool broken;
    uint64_t broken_ns;
} breaking;

static void break_past(mesh *self, void *argument)
{
    breaking *its = argument;
    mesh_member *other = self->members[0];
    if (self->sum.runs && self->sum.moved < its->bytes)
        return;
    if (mesh_is_linked(other))
        mesh_misbehaves(other->link, "the test breaks it");
    its->broken = true;
    its->broken_ns = clock_now_ns();
}

typedef struct bond {
    bool linked, dialed;
    uint64_t since_ns, bound_ns;
} bond;

static void look_at_bond(mesh *self, void *argument)
{
    const mesh_member *other = self->members[0];
    bool linked = mesh_is_linked(other);
    *(bond *)argument = (bond){
        .linked = linked,
        .dialed = linked && other->link->dialed,
        .since_ns = linked ? other->link->since_ns : 0,
        .bound_ns = other->wait.bound_ns,
    };
}

static void wait_for_bond(mesh *member, uint64_t after_ns)
{
    bond its = {.linked = false};
    while (!its.linked || its.since_ns < after_ns)
        mesh_do(member, look_at_bond, &its);
}

/* Both hear of it: neither waits for the limit of silence. */
TEST(a_break_keeps_nobody_waiting)
{
    enum { TWO = 2 };
    static const uint64_t past[] = {0, 1, 400000, 800000, 1200000, 1600000};
    OWNED(sum_case) of = sum_case_make(LONGER, 1, TWO, false, test_seed(__func__, 13));
    OWNED(mesh_group) group;
    mesh_group_begin(&group, TWO);
    mesh_group_sum(&group, of);
    for (size_t trial = 0; trial < TWO * sizeof(past) / sizeof(past[0]); trial++) {
        uint32_t breaker = trial % TWO;
        breaking its = {.bytes = past[trial / TWO]};
        mesh_group_form(&group);
        group.step++;
        bond seen;
        for (uint32_t i = 0; i < TWO; i++) {
            mesh_group_start(&group, i, of);
            mesh_do(group.members[i], look_at_bond, &seen); /* it has begun */
        }
        while (!its.broken)
            mesh_do(group.members[breaker], break_past, &its);
        for (uint32_t i = 0; i < TWO; i++) {
            tarry_engine_progress progress = mesh_group_wait(&group, i);
            assert_int_not_equal(progress.state, TARRY_ENGINE_RUNNING);
            if (progress.state == TARRY_ENGINE_DONE)
                sum_case_check(of, group.sums[i]);
            else
                assert_int_equal(progress.suspect, 10 * (1 - i));
        }
        for (uint32_t i = 0; i < TWO; i++)
            wait_for_bond(group.members[i], its.broken_ns);
        mesh_group_form(&group);
        mesh_group_sum(&group, of);
    }
}

/* However often: who is waited for was reached each time, and tries as soon as at the first. */
MESH_GROUP(who_was_reached_is_soon_called_again)
{
    enum { TWO = 2, BREAKS = 4 };
    static const tarry_sum_id name = {.step = 3, .term = 1, .attempt = 4, .digest = 99};
    static const float held[LONG] = {7};
    OWNED(float) got = calloc(LONG, sizeof(float));
    bond seen;
    mesh_group_begin(group, TWO);
    wait_for_bond(group->members[0], 0);
    mesh_do(group->members[0], look_at_bond, &seen);
    mesh *called = group->members[seen.dialed ? 1 : 0],
         *caller = group->members[seen.dialed ? 0 : 1];
    exchange *taker = mesh_exchange(called), *giver = mesh_exchange(caller);
    mesh_group_hold(giver, &name, held, LONG);
    wait_for_bond(caller, 0);
    for (int time = 0; time < BREAKS; time++) {
        exchange_progress progress;
        breaking its = {.bytes = 0};
        mesh_do(called, break_past, &its);
        mesh_group_fetch(taker, seen.dialed ? 0 : 10, &name, got, LONG);
        taker->methods->wait(taker, TARRY_NEVER, &progress);
        assert_int_equal(progress.state, EXCHANGE_DONE);
        assert_memory_equal(got, held, sizeof(held));
        bond now;
        mesh_do(caller, look_at_bond, &now);
        assert_true(now.bound_ns <= 2 * BACKOFF_LEAST_NS);
    }
}
