/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving early where workers sum among themselves: who has nothing left to do begins its part of
 * the sum before all are done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tarry/error.h>

#include "base/sum_id.h"
#include "story.h"

enum { DIGEST = 77 };

/* What the last signal said. */
typedef struct sum_signal {
    tarry_sum_id name;
    uint64_t group;
} sum_signal;

/* It has the first state. */
static void arrives(story *told, uint32_t worker)
{
    joins(told, worker);
    expect_send(told, worker, TARRY_MESSAGE_ASK);
    says(told, worker,
         &(tarry_message){
             .type = TARRY_MESSAGE_STATE, .epoch = told->epoch, .from = TARRY_NO_WORKER});
}

/* Worker j of the ring of three computes chunk j, then j + 1, `replication` of them; the first
 * `count` are there. */
static void three_sum_with(story *told, uint32_t replication, uint32_t count)
{
    story_plan(told, 3, replication);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.early = true;
    told->settings.sum = TARRY_SUM_EVERYWHERE;
    told->settings.attempt_limit_ns = 100 * STORY_MS;
    assert_int_equal(tarry_server_create(told->plan, &told->settings, NULL, &told->server, NULL),
                     TARRY_OK);
    for (uint32_t worker = 0; worker < count; worker++)
        arrives(told, worker);
    starts(told);
}

static void three_sum(story *told, uint32_t count)
{
    three_sum_with(told, 2, count);
}

static void reports_in(story *told, uint32_t worker, uint32_t slot, uint32_t term)
{
    says(told, worker,
         &(tarry_message){.type = TARRY_MESSAGE_REPORT,
                          .round = told->round,
                          .epoch = told->epoch,
                          .slot = slot,
                          .term = term});
    expect_send(told, worker, TARRY_MESSAGE_NEWS);
}

static sum_signal expect_sum(story *told, uint32_t worker, uint32_t attempt, bool early)
{
    const tarry_message *signal = expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    assert_int_equal(signal->attempt, attempt);
    assert_int_equal(signal->early, early);
    return (sum_signal){signal->sum, signal->group[0]};
}

static void answers(story *told, uint32_t worker, const tarry_sum_id *name, bool held)
{
    tarry_message answer = {.type = held ? TARRY_MESSAGE_HELD : TARRY_MESSAGE_FAILED,
                            .epoch = told->epoch,
                            .sum = *name,
                            .from = TARRY_NO_WORKER};
    answer.sum.digest = held ? DIGEST : 0;
    says(told, worker, &answer);
}

/* All in the group have the sum, which is logged, and the round is over. */
static void all_hold(story *told, uint64_t group, const tarry_sum_id *name)
{
    for (uint32_t worker = 0; worker < 3; worker++)
        if (group >> worker & 1)
            answers(told, worker, name, true);
    assert_int_equal(told->effects->items[told->expected].type, TARRY_EFFECT_LOG);
    tarry_sum_id sum = told->effects->items[told->expected++].sum;
    assert_int_equal(sum.digest, DIGEST);
    happens(told, &(tarry_event){.type = TARRY_EVENT_LOGGED, .sum = sum});
    for (uint32_t worker = 0; worker < 3; worker++)
        if (group >> worker & 1)
            expect_send(told, worker, TARRY_MESSAGE_COMMIT);
}

/* Worker 0 does both of its chunks, and is signalled alone. */
static sum_signal the_first_leaves(story *told)
{
    reports_in(told, 0, 0, 0);
    reports_in(told, 0, 1, 0);
    return expect_sum(told, 0, 1, true);
}

static void who_is_done_begins_before_the_others(void **state)
{
    (void)state;
    story told;
    three_sum(&told, 3);
    at(&told, 5);
    sum_signal first = the_first_leaves(&told);
    assert_int_equal(first.group, 7);
    at(&told, 150); /* longer than an attempt may take once all are told */
    time_passes(&told);
    reports_in(&told, 1, 1, 0);
    sum_signal second = expect_sum(&told, 1, 1, false), third = expect_sum(&told, 2, 1, false);
    assert_true(sum_id_same(&first.name, &second.name) && sum_id_same(&first.name, &third.name));
    assert_true(second.group == 7 && third.group == 7);
    at(&told, 160);
    all_hold(&told, 7, &first.name);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_early, 1);
    assert_int_equal(result->voters, 3);
    assert_int_equal(result->signal_ns, 150 * STORY_MS);
    story_end(&told);
}

/* The sum can't be made without who was in its group, told or not. */
static void a_loss_before_all_are_told_withdraws_the_attempt(void **state)
{
    (void)state;
    story told;
    three_sum(&told, 3);
    sum_signal first = the_first_leaves(&told);
    is_lost(&told, 2);
    expect_send(&told, 0, TARRY_MESSAGE_BREAK);
    reports_in(&told, 1, 1, 0); /* the rule holds; but the attempt is not over */
    answers(&told, 0, &first.name, false);
    sum_signal again = expect_sum(&told, 0, 2, false);
    expect_sum(&told, 1, 2, false);
    assert_int_equal(again.group, 3);
    assert_false(sum_id_named(&again.name, &first.name));
    all_hold(&told, 3, &again.name);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 2);
    story_end(&told);
}

/* They compute on, and the round opens no other attempt early. */
static void those_who_left_are_called_back(void **state)
{
    (void)state;
    story told;
    three_sum(&told, 3);
    sum_signal first = the_first_leaves(&told);
    answers(&told, 0, &first.name, false); /* its engine has failed */
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_RESUME);
    reports_in(&told, 2, 1, 0); /* what 0 is credited with */
    reports_in(&told, 2, 0, 0); /* both of its own */
    sum_signal again = expect_sum(&told, 0, 2, false);
    expect_sum(&told, 1, 2, false);
    expect_sum(&told, 2, 2, false);
    all_hold(&told, again.group, &again.name);
    assert_int_equal(expect_done(&told, TARRY_OK)->workers_early, 1);
    story_end(&told);
}

/* What it computed would not be in the sum. */
static void who_comes_later_waits_for_the_next_round(void **state)
{
    (void)state;
    story told;
    three_sum(&told, 2);
    sum_signal first = the_first_leaves(&told);
    assert_int_equal(first.group, 3);
    arrives(&told, 2);
    expect_nothing(&told); /* no ROUND */
    reports_in(&told, 1, 1, 0);
    expect_sum(&told, 1, 1, false);
    all_hold(&told, 3, &first.name);
    expect_send(&told, 2, TARRY_MESSAGE_FETCH);
    expect_done(&told, TARRY_OK);
    story_end(&told);
}

/* Whose word that it has the last state is still on the way could not vote. */
static void nobody_leaves_before_all_who_compute_can_vote(void **state)
{
    (void)state;
    story told;
    three_sum(&told, 3);
    sum_signal first = the_first_leaves(&told);
    reports_in(&told, 1, 1, 0);
    expect_sum(&told, 1, 1, false);
    expect_sum(&told, 2, 1, false);
    all_hold(&told, 7, &first.name);
    expect_done(&told, TARRY_OK);
    starts(&told);
    reports_in(&told, 0, 0, 0);
    reports_in(&told, 0, 1, 0);
    expect_nothing(&told);
    tarry_sum_id last = first.name;
    last.digest = DIGEST;
    for (uint32_t worker = 0; worker < 3; worker++) {
        expect_nothing(&told);
        says(&told, worker,
             &(tarry_message){.type = TARRY_MESSAGE_STATE,
                              .epoch = told.epoch,
                              .attempt = 1,
                              .last = last,
                              .sum = last,
                              .from = TARRY_NO_WORKER});
    }
    expect_sum(&told, 0, 1, true);
    story_end(&told);
}

/* It was done, and had to wait for one that is on the way; then a chunk is open for it again. */
static void who_has_work_again_does_not_leave(void **state)
{
    (void)state;
    story told;
    three_sum_with(&told, 3, 2); /* each holds all */
    reports_in(&told, 1, 0, 0);
    joins(&told, 2);
    expect_send(&told, 2, TARRY_MESSAGE_ASK);
    reports_in(&told, 0, 0, 0);
    reports_in(&told, 0, 1, 0); /* dropped: 1 was before it */
    fails(&told, 0, 2);
    expect_nothing(&told);
    is_lost(&told, 1);
    assert_non_null(expect_send(&told, 0, TARRY_MESSAGE_NEWS)->recalled);
    says(&told, 2,
         &(tarry_message){
             .type = TARRY_MESSAGE_STATE, .epoch = told.epoch, .from = TARRY_NO_WORKER});
    expect_send(&told, 2, TARRY_MESSAGE_ROUND); /* it could compute that chunk, too */
    expect_nothing(&told);
    reports_in(&told, 0, 1, 1);
    sum_signal first = expect_sum(&told, 0, 1, true);
    assert_int_equal(first.group, 5);
    reports_in(&told, 2, 0, 0);
    expect_sum(&told, 2, 1, false);
    all_hold(&told, first.group, &first.name);
    assert_true(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_done_begins_before_the_others),
        cmocka_unit_test(a_loss_before_all_are_told_withdraws_the_attempt),
        cmocka_unit_test(those_who_left_are_called_back),
        cmocka_unit_test(who_comes_later_waits_for_the_next_round),
        cmocka_unit_test(nobody_leaves_before_all_who_compute_can_vote),
        cmocka_unit_test(who_has_work_again_does_not_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
