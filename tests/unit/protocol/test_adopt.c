/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "protocol/server/server_state.h"
#include "story.h"
#include "test.h"

enum { WORKERS = 3 };

/* The story's ring as a plan that can evolve. */
static void ring_plan(story *told)
{
    story_plan(told, WORKERS, 2);
    tarry_plan_free(told->plan);
    told->plan = plan_of(WORKERS, WORKERS, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 0);
}

/* The next plan of the ring: copies away from worker 0, and chunk 0 in two halves. */
static tarry_plan *other_plan(const tarry_plan *plan)
{
    const double paces[WORKERS] = {4, 1, 1}, cost[WORKERS] = {2.5, 1, 1};
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    wanted.pace = paces;
    wanted.cost = cost;
    wanted.heaviest = 1;
    wanted.most_moves = 2;
    tarry_plan_changes changes;
    tarry_plan *next = plan_evolve(plan, &wanted, &changes);
    assert_true(changes.split > 0);
    return next;
}

/* The story goes on with another plan's server. */
static tarry_plan *turns_to_another_plan(story *told)
{
    tarry_plan *last = told->plan;
    told->plan = other_plan(last);
    story_adopt(told);
    return last;
}

STORY(the_next_round_follows_for_those_there)
{
    ring_plan(told);
    story_begin(told);
    at(told, 3);
    reports(told, 1, 0);
    is_lost(told, 2);
    is_aborted(told);
    double pace_ns = tarry_server_pace_ns(told->server, 1);
    assert_true(pace_ns > 0);
    OWNED(tarry_plan) last = turns_to_another_plan(told);
    double smaller = (double)tarry_plan_chunks(last) / tarry_plan_chunks(told->plan);
    assert_true(fabs(tarry_server_pace_ns(told->server, 1) - smaller * pace_ns) < 1e-3);
    assert_true(tarry_server_present(told->server, 0));
    assert_true(tarry_server_present(told->server, 1));
    assert_false(tarry_server_present(told->server, 2));
    assert_int_equal(tarry_server_finished(told->server, 1), 0);

    at(told, 4);
    happens(told, &(tarry_event){.type = TARRY_EVENT_START});
    for (uint32_t worker = 0; worker < 2; worker++) {
        const tarry_message *message = expect_send(told, worker, TARRY_MESSAGE_ROUND);
        assert_int_equal(message->round, 1);
        assert_int_equal(message->epoch, 1);
    }
    expect_nothing(told);
    /* What was said of the round before, with the same arrival, does not count. */
    tarry_message late = {.type = TARRY_MESSAGE_REPORT, .round = 0, .epoch = 1, .slot = 1};
    says(told, 1, &late);
    expect_reject(told, 1, TARRY_REJECT_STALE);
    late.slot = tarry_plan_chunks(told->plan); /* a position that there is no more */
    says(told, 0, &late);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    late = (tarry_message){.type = TARRY_MESSAGE_PART, .round = 0, .epoch = 1, .attempt = 1};
    says(told, 0, &late);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    /* Arrivals are counted on. */
    happens(told, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = 2});
    assert_int_equal(expect_send(told, 2, TARRY_MESSAGE_ROUND)->epoch, 2);
}

/* Silence lasts over plans: worker 0 is probed at 260 ms, and said to be there by its answer. */
STORY(a_probe_stays_unanswered)
{
    ring_plan(told);
    story_begin(told);
    at(told, 150);
    for (uint32_t worker = 1; worker < WORKERS; worker++)
        is_alive(told, worker);
    passes(told, 260);
    expect_send(told, 0, TARRY_MESSAGE_PROBE);
    uint64_t probed = told->server->members[0].probe_ns;
    assert_true(probed != TARRY_NEVER);
    is_aborted(told);
    OWNED(tarry_plan) last = turns_to_another_plan(told);
    assert_true(told->server->members[0].probe_ns == probed);
    is_alive(told, 0);
    assert_true(told->server->members[0].probe_ns == TARRY_NEVER);
}

/* The checkpoint of the plan before holds until there is one of the next. */
STORY(the_reserve_of_arrivals_stays)
{
    ring_plan(told);
    story_begin(told);
    is_aborted(told);
    uint8_t bytes[512];
    assert_true(tarry_server_checkpoint_size(told->server) <= sizeof(bytes));
    assert_ok(tarry_server_checkpoint(told->server, bytes));
    tarry_server_stored(told->server, bytes);
    OWNED(tarry_plan) last = turns_to_another_plan(told);
    for (uint32_t arrival = 0; arrival < TARRY_CHECKPOINT_ARRIVALS; arrival++)
        joins(told, 0);
    happens(told, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = 0});
    expect_reject(told, 0, TARRY_REJECT_EXHAUSTED);
    assert_ok(tarry_server_checkpoint(told->server, bytes));
    tarry_server_stored(told->server, bytes);
    joins(told, 0);
}

STORY(what_does_not_fit_is_refused)
{
    ring_plan(told);
    story_begin(told);
    OWNED(tarry_server) server = server_make(told->plan, &told->settings);
    assert_int_equal(tarry_server_adopt(server, told->server, NULL), TARRY_ERROR_STATE);
    is_aborted(told);
    assert_int_equal(tarry_server_adopt(told->server, server, NULL), TARRY_ERROR_STATE);

    story larger;
    story_plan(&larger, WORKERS + 1, 2);
    tarry_server *other = server_make(larger.plan, &told->settings);
    assert_int_equal(tarry_server_adopt(other, told->server, NULL), TARRY_ERROR_ARGUMENT);
    tarry_server_free(other);
    tarry_plan_free(larger.plan);

    /* One that must not step before it is saved again can't be left behind either. */
    uint8_t bytes[512];
    assert_ok(tarry_server_checkpoint(told->server, bytes));
    OWNED(tarry_server) restored = server_make(told->plan, &told->settings);
    size_t size = tarry_server_checkpoint_size(restored);
    assert_ok(tarry_server_restore(restored, bytes, size, NULL));
    assert_int_equal(tarry_server_adopt(server, restored, NULL), TARRY_ERROR_STATE);
    assert_ok(tarry_server_checkpoint(restored, bytes));
    tarry_server_stored(restored, bytes);
    assert_ok(tarry_server_adopt(server, restored, NULL));
}

/* Worker 0 takes 4 ms for a chunk, worker 1 takes 2 ms, and worker 2 finishes none. */
static void tell_paces(story *told)
{
    ring_plan(told);
    told->settings.pick = TARRY_PICK_SHARE;
    story_begin(told);
    for (uint32_t worker = 2; worker-- > 0;) {
        at(told, worker == 1 ? 2 : 4);
        says(told, worker,
             &(tarry_message){
                 .type = TARRY_MESSAGE_REPORT,
                 .epoch = 1,
                 .slot = told->server->steering->workers[worker].current,
                 .next = tarry_plan_load(told->plan, worker),
                 .sequence = 1,
             });
        told->expected = told->effects->count;
    }
    is_aborted(told);
}

STORY(what_was_learned_goes_along)
{
    tell_paces(told);
    assert_true(tarry_server_pace_ns(told->server, 0) > tarry_server_pace_ns(told->server, 1));
    OWNED(tarry_plan) next = other_plan(told->plan);
    OWNED(tarry_server) server = server_make(next, &told->settings);
    const double costs[WORKERS] = {3, 2, 1};
    assert_ok(tarry_server_costs(told->server, costs));
    assert_ok(tarry_server_adopt(server, told->server, NULL));
    /* The mean chunk became smaller, and all times of it with it. */
    double smaller = (double)tarry_plan_chunks(told->plan) / tarry_plan_chunks(next);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_true(fabs(tarry_server_pace_ns(server, worker) -
                         smaller * tarry_server_pace_ns(told->server, worker)) < 1e-3);
    /* The data cost what they did, however they are cut. */
    double before[WORKERS], after[WORKERS] = {0}, carried[WORKERS];
    for (uint32_t chunk = 0; chunk < WORKERS; chunk++)
        before[chunk] = told->server->steering->cost[chunk];
    assert_ok(tarry_plan_carry_cost(next, server->steering->cost, told->plan, NULL, carried));
    for (uint32_t chunk = 0; chunk < WORKERS; chunk++) {
        after[chunk] = carried[chunk] * smaller;
        assert_true(fabs(after[chunk] - before[chunk]) < 1e-12);
    }
}

/* Links are what they were, whatever the plan. */
STORY(what_links_take_goes_along)
{
    ring_plan(told);
    story_begin(told);
    is_aborted(told);
    estimate_add(&told->server->part_time, 11);
    OWNED(tarry_plan) last = turns_to_another_plan(told);
    assert_true(told->server->part_time.mean == 11);
}

STORY(plans_follow_what_was_learned)
{
    tell_paces(told);
    const double costs[WORKERS] = {5, 2, 1};
    assert_ok(tarry_server_costs(told->server, costs));
    tarry_plan_evolution limits;
    tarry_plan_evolution_init(&limits);
    limits.heaviest = 1.5;
    tarry_plan *next;
    tarry_plan_changes changes;
    assert_ok(server_evolve(told->server, &limits, NULL, &next, &changes, NULL));
    assert_int_equal(changes.split, 1); /* 5 of a mean of 8/3 */
    tarry_plan_free(next);

    /* Of the gone nothing is expected: worker 0 keeps the only copies that matter. */
    limits.heaviest = 0;
    limits.most_moves = 100;
    at(told, 5);
    for (uint32_t worker = 1; worker < WORKERS; worker++)
        is_lost(told, worker);
    assert_ok(server_evolve(told->server, &limits, NULL, &next, &changes, NULL));
    assert_true(isinf(changes.matched_before));
    assert_true(isfinite(changes.matched_after));
    assert_int_equal(changes.moved, 1);
    assert_int_equal(tarry_plan_load(next, 0), WORKERS);
    tarry_plan_free(next);
}

/* The same with the limits that do for most. */
STORY(plans_adapt_to_what_was_learned)
{
    tell_paces(told);
    const double even[WORKERS] = {1, 1, 1}, uneven[WORKERS] = {13, 1, 1};
    OWNED(tarry_plan) next = NULL;
    tarry_plan_changes changes;
    assert_ok(tarry_server_costs(told->server, even));
    assert_ok(tarry_server_adapt(told->server, 0, NULL, NULL, &next, NULL, NULL));
    assert_null(next); /* nothing to split, and no copy may move */
    assert_ok(tarry_server_costs(told->server, uneven));
    assert_ok(tarry_server_adapt(told->server, 0, NULL, NULL, &next, &changes, NULL));
    assert_int_equal(changes.split, 1); /* 13 of a mean of 5, more than twice that */
    assert_int_equal(changes.moved, 0);
    assert_non_null(next);
    assert_true(tarry_plan_chunks(next) <= 2 * WORKERS);
}

typedef struct attempt {
    story told;
    tarry_plan *next;
} attempt;

static int try_to_adopt(void *user, const tarry_allocator *allocator)
{
    const attempt *of = user;
    OWNED(tarry_server) server = NULL;
    int error = tarry_server_create(of->next, &of->told.settings, allocator, &server, NULL);
    if (error != TARRY_OK)
        return error;
    error = tarry_server_adopt(server, of->told.server, NULL);
    if (error != TARRY_OK) /* as good as new */
        assert_true(server_is_fresh(server) && server->steering->cost[0] == 1);
    return error;
}

static int try_to_evolve(void *user, const tarry_allocator *allocator)
{
    const attempt *of = user;
    tarry_plan_evolution limits;
    tarry_plan_evolution_init(&limits);
    tarry_plan *next;
    int error = server_evolve(of->told.server, &limits, allocator, &next, NULL, NULL);
    if (error == TARRY_OK)
        tarry_plan_free(next);
    return error;
}

TEST(missing_memory_is_an_error)
{
    attempt of;
    tell_paces(&of.told);
    of.next = other_plan(of.told.plan);
    assert_true(fail_each_allocation(try_to_adopt, &of) > 10);
    assert_true(fail_each_allocation(try_to_evolve, &of) > 3);
    tarry_plan_free(of.next);
    story_end(&of.told);
}
