/* SPDX-License-Identifier: Apache-2.0 */
/* TARRY_KEEP_CREDITED at a worker: a running sum, and as many gradients as it may run ahead. */
#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "test.h"
#include "worker_desk.h"

static void hears_fate(desk *its, uint32_t slot, tarry_fate fate, uint32_t term)
{
    hears_message(
        its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .slot = slot, .fate = fate, .term = term});
}

static void hears_recall(desk *its, uint64_t recalled, uint32_t term)
{
    hears_message(its,
                  (tarry_message){.type = TARRY_MESSAGE_NEWS, .recalled = &recalled, .term = term});
}

static const tarry_effect *expect_at(desk *its, tarry_effect_type type, uint32_t slot)
{
    const tarry_effect *effect = expect(its, type);
    assert_int_equal(effect->slot, slot);
    return effect;
}

/* It turns to a chunk, and says so, since the server may not expect it. */
static void expect_turn(desk *its, uint32_t slot)
{
    expect_at(its, TARRY_EFFECT_COMPUTE, slot);
    const tarry_message *word = &expect_at(its, TARRY_EFFECT_SEND, 0)->message;
    assert_int_equal(word->type, TARRY_MESSAGE_ALIVE);
    assert_int_equal(word->next, slot);
}

static void expect_fold(desk *its, uint32_t slot, bool begins)
{
    assert_int_equal(expect_at(its, TARRY_EFFECT_FOLD, slot)->begins, begins);
}

/* The report, with what follows it: the next to be computed, LOAD if there is none. */
static void finishes(desk *its, uint32_t slot, uint32_t next, uint32_t term)
{
    has_computed(its, slot, false);
    const tarry_message *report = &expect_at(its, TARRY_EFFECT_SEND, 0)->message;
    assert_int_equal(report->type, TARRY_MESSAGE_REPORT);
    assert_int_equal(report->slot, slot);
    assert_int_equal(report->next, next);
    assert_int_equal(report->term, term);
    if (next < LOAD)
        expect_at(its, TARRY_EFFECT_COMPUTE, next);
}

static void desk_begin(desk *its)
{
    desk_create_folding(its, 1, 0);
}

DESK(two_that_wait_for_their_fate_are_enough)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    finishes(its, 1, LOAD, 0);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 0, true);
    expect_turn(its, 2);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0); /* once more */
    hears_fate(its, 1, TARRY_FATE_DROPPED, 0);
    expect_at(its, TARRY_EFFECT_DROP, 1);
    finishes(its, 2, LOAD, 0);
    hears_fate(its, 2, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 2, false);
    hears_signal_of_term(its, 1, OWN_0 | OTHER_1 | OWN_2, 1);
    const float *u = expect_at(its, TARRY_EFFECT_ENCODE, 0)->coefficients;
    assert_true(u[0] == 1 && u[1] == 0 && u[2] == 1);
}

DESK(who_may_not_run_ahead_waits_for_each_fate)
{
    desk_create_folding(its, 0, 0);
    finishes(its, 0, LOAD, 0);
    hears_fate(its, 0, TARRY_FATE_DROPPED, 0);
    expect_at(its, TARRY_EFFECT_DROP, 0);
    expect_turn(its, 1);
    finishes(its, 1, LOAD, 0);
    hears_fate(its, 1, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 1, true);
    expect_turn(its, 2);
}

/* Answers come late, in any order, and the signal before the last of them; a worker never runs
 * further than it has chunks. */
TEST(several_wait_for_their_fates)
{
    const uint32_t far[] = {2, 3, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        desk its;
        desk_create_folding(&its, far[i], 0);
        finishes(&its, 0, 1, 0);
        finishes(&its, 1, 2, 0);
        finishes(&its, 2, LOAD, 0);
        hears_fate(&its, 1, TARRY_FATE_CREDITED, 0);
        expect_fold(&its, 1, true);
        hears_signal_of_term(&its, 1, OWN_0 | OWN_1, 1);
        expect_at(&its, TARRY_EFFECT_FOLD, 0);
        expect_at(&its, TARRY_EFFECT_DROP, 2);
        const float *u = expect_at(&its, TARRY_EFFECT_ENCODE, 0)->coefficients;
        assert_true(u[0] == 1 && u[1] == 1 && u[2] == 0);
        hears_fate(&its, 2, TARRY_FATE_DROPPED, 0); /* too late */
        expect_reject(&its, TARRY_REJECT_STALE);
        desk_end(&its);
    }
}

/* Three are open when the round is over: all their places are free then. */
DESK(what_is_open_is_dropped_with_the_round)
{
    desk_create_folding(its, 3, 0);
    for (uint32_t slot = 0; slot < LOAD; slot++)
        finishes(its, slot, slot + 1, 0);
    its->round = 1;
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_ROUND});
    for (uint32_t slot = 0; slot < LOAD; slot++)
        expect_at(its, TARRY_EFFECT_DROP, slot);
    expect_at(its, TARRY_EFFECT_COMPUTE, 0);
}

/* Of a dynamic order: positions 2 and 0 first, then nothing. */
DESK(news_of_a_fate_leave_the_order_as_it_is)
{
    const uint64_t first = 5, barred = 2;
    desk_begin(its);
    its->round = 1;
    hears_message(
        its, (tarry_message){
                 .type = TARRY_MESSAGE_ROUND, .sequence = 7, .first = &first, .barred = &barred});
    expect_at(its, TARRY_EFFECT_CANCEL, 0);
    expect_at(its, TARRY_EFFECT_COMPUTE, 0);
    finishes(its, 0, 2, 0);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0); /* its turn is 0: it is not outdated */
    expect_fold(its, 0, true);
    finishes(its, 2, LOAD, 0);
    hears_fate(its, 2, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 2, false);
    hears_message(
        its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .sequence = 6}); /* older than the ROUND */
    expect_reject(its, TARRY_REJECT_STALE);
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .sequence = 8});
    expect_turn(its, 1);
}

/* Nothing is reported under orders that the signal before them, which comes later, would make void.
 */
DESK(news_that_overtake_a_signal_stop_the_worker)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_NEWS, .attempt = 1, .term = 2});
    expect_at(its, TARRY_EFFECT_CANCEL, 1);
    hears_signal_of_term(its, 1, OTHER_1, 1);
    expect_at(its, TARRY_EFFECT_DROP, 0);
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_RESUME, .attempt = 1, .term = 2});
    expect_turn(its, 0);
    finishes(its, 0, 1, 2);
}

/* In psi: folded; not in it: dropped, and not finished any more. */
DESK(the_signal_decides_on_what_is_open)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    finishes(its, 1, LOAD, 0);
    hears_signal_of_term(its, 1, OWN_0, 1);
    expect_fold(its, 0, true);
    expect_at(its, TARRY_EFFECT_DROP, 1);
    expect_at(its, TARRY_EFFECT_ENCODE, 0);
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED, .attempt = 1});
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_RESUME, .attempt = 1, .term = 1});
    expect_turn(its, 1);
    finishes(its, 1, 2, 1);
    hears_signal_of_term(its, 2, OTHER_1, 2); /* it was found too late, and is left out */
    expect_at(its, TARRY_EFFECT_CANCEL, 2);
    expect_at(its, TARRY_EFFECT_DROP, 1);
}

DESK(a_dropped_copy_is_computed_again_when_recalled)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    hears_fate(its, 0, TARRY_FATE_DROPPED, 0);
    expect_at(its, TARRY_EFFECT_DROP, 0);
    finishes(its, 1, 2, 0);
    hears_fate(its, 1, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 1, true);
    finishes(its, 2, LOAD, 0);
    /* What is folded, and what is open, is not to be computed again. */
    hears_recall(its, 7, 1);
    expect_turn(its, 0);
    hears_fate(its, 2, TARRY_FATE_DROPPED, 0); /* from before the recall */
    expect_reject(its, TARRY_REJECT_STALE);
    finishes(its, 0, LOAD, 1);
    hears_fate(its, 0, TARRY_FATE_DROPPED, 1);
    expect_at(its, TARRY_EFFECT_DROP, 0);
    hears_recall(its, 7, 1); /* the same one, once more */
    hears_recall(its, 1, 2);
    expect_turn(its, 0);
}

/* The sum has what psi says, no less and no more. */
DESK(a_psi_that_is_not_the_sum_is_rejected)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 0, true);
    finishes(its, 1, 2, 0);
    hears_fate(its, 1, TARRY_FATE_DROPPED, 0);
    expect_at(its, TARRY_EFFECT_DROP, 1);
    hears_signal_of_term(its, 1, OWN_0 | OWN_1, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
    finishes(its, 2, LOAD, 0);
    hears_signal_of_term(its, 1, OWN_2, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
    hears_fate(its, LOAD, TARRY_FATE_CREDITED, 0);
    expect_reject(its, TARRY_REJECT_RANGE);
    hears_fate(its, 2, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 2, false);
}

DESK(a_round_begins_with_an_empty_sum)
{
    desk_begin(its);
    finishes(its, 0, 1, 0);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 0, true);
    finishes(its, 1, 2, 0);
    its->round = 1;
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_ROUND});
    expect_at(its, TARRY_EFFECT_CANCEL, 2);
    expect_at(its, TARRY_EFFECT_DROP, 1);
    expect_at(its, TARRY_EFFECT_COMPUTE, 0);
    finishes(its, 0, 1, 0);
    hears_fate(its, 0, TARRY_FATE_CREDITED, 0);
    expect_fold(its, 0, true);
    finishes(its, 1, 2, 0);
    hears_message(its, (tarry_message){.type = TARRY_MESSAGE_FINISH});
    expect_at(its, TARRY_EFFECT_CANCEL, 2);
    expect_at(its, TARRY_EFFECT_DROP, 1);
}

TEST(more_parts_can_not_be_folded)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(3, 3, 2, 2);
    tarry_worker_settings settings = {.worker = 1,
                                      .server = {.dimension = 1,
                                                 .stripe_length = 1,
                                                 .conditioning_limit = 1000,
                                                 .keep = TARRY_KEEP_CREDITED,
                                                 .ahead = 1}};
    tarry_worker *worker = NULL;
    assert_int_equal(tarry_worker_create(plan, &settings, NULL, &worker, NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_null(worker);
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(3, 3, 2, 1);
    worker_creation made = {plan,
                            {.worker = 1,
                             .server = {.dimension = 1,
                                        .stripe_length = 1,
                                        .conditioning_limit = 1000,
                                        .keep = TARRY_KEEP_CREDITED,
                                        .ahead = 1}}};
    assert_true(fail_each_allocation(create_worker, &made) >= 6);
}
