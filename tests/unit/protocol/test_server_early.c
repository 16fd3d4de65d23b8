/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving early: who has nothing left to do sends before all are done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bitset.h"
#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "protocol/server/server_state.h"
#include "story.h"

/* As story_plan, with workers that leave early. */
static void plan_early(story *told, uint32_t workers, uint32_t replication)
{
    story_plan(told, workers, replication);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.early = true;
}

/* Worker j of the ring of three computes chunk j, then j + 1; parts of two stripes. */
static void three_leave(story *told)
{
    plan_early(told, 3, 2);
    told->settings.stripe_length = 8;
    story_begin(told);
}

static void reports_in(story *told, uint32_t worker, uint32_t slot, uint32_t term)
{
    says(told, worker,
         &(tarry_message){.type = TARRY_MESSAGE_REPORT,
                          .round = told->round,
                          .epoch = told->epoch,
                          .slot = slot,
                          .term = term});
}

static const tarry_message *expect_fate(story *told, uint32_t worker, tarry_fate fate)
{
    const tarry_message *news = expect_send(told, worker, TARRY_MESSAGE_NEWS);
    assert_int_equal(news->fate, fate);
    return news;
}

static void is_credited(story *told, uint32_t worker, uint32_t slot)
{
    reports(told, worker, slot);
    assert_int_equal(expect_fate(told, worker, TARRY_FATE_CREDITED)->attempt, 0);
}

static void is_dropped(story *told, uint32_t worker, uint32_t slot)
{
    reports(told, worker, slot);
    expect_fate(told, worker, TARRY_FATE_DROPPED);
}

static void expect_recall(story *told, uint32_t worker, uint32_t slot, uint32_t attempt)
{
    const tarry_message *news = expect_fate(told, worker, TARRY_FATE_OPEN);
    assert_non_null(news->recalled);
    assert_int_equal(*news->recalled & 7, 1 << slot);
    assert_int_equal(news->attempt, attempt);
}

static void expect_clears(story *told)
{
    expect_clear(told, 0);
    expect_clear(told, 1);
}

/* Worker 0 does both of its chunks, and is signalled: 0 and 1 are its own. */
static void the_first_leaves(story *told)
{
    is_credited(told, 0, 0);
    is_credited(told, 0, 1);
    expect_clears(told);
    expect_signal(told, 0, 1, "1010", "11");
}

static void who_is_done_sends_before_the_others(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    at(&told, 5);
    the_first_leaves(&told);
    at(&told, 6);
    delivers(&told, 0, 1, 0);
    at(&told, 7);
    is_credited(&told, 1, 1); /* the last chunk */
    expect_signal(&told, 1, 1, "1010", "11");
    expect_signal(&told, 2, 1, "1010", "11");
    at(&told, 8);
    delivers(&told, 1, 1, 0);
    delivers(&told, 1, 1, 1);
    delivers(&told, 0, 1, 1);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_early, 1);
    assert_int_equal(result->copies_coded, 3);
    assert_int_equal(result->signal_ns, 7 * STORY_MS);
    starts(&told);
    at(&told, 9);
    the_first_leaves(&told);
    story_end(&told);
}

/* The stripes of those who left are complete only when no others can come. */
static void no_stripe_is_complete_before_the_signal_to_all(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    delivers(&told, 0, 1, 0);
    delivers(&told, 0, 1, 1);
    is_dropped(&told, 1, 0);
    is_lost(&told, 1);
    reports(&told, 2, 0);
    expect_fate(&told, 2, TARRY_FATE_CREDITED);
    expect_signal(&told, 2, 1, "0110", "11");
    delivers(&told, 2, 1, 1);
    delivers(&told, 2, 1, 0);
    assert_true(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

/* What it had sent is void, and its chunks are open again. */
static void a_loss_in_the_middle_of_an_early_part_withdraws_the_attempt(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    is_dropped(&told, 1, 0);
    delivers(&told, 0, 1, 0);
    is_lost(&told, 0);
    expect_recall(&told, 1, 0, 0);
    expect_resume(&told, 1, "11");
    expect_resume(&told, 2, "11");
    reports_in(&told, 1, 0, 1);
    expect_fate(&told, 1, TARRY_FATE_CREDITED);
    reports(&told, 2, 1);
    expect_fate(&told, 2, TARRY_FATE_CREDITED);
    reports(&told, 2, 0); /* all of it; but this round opens no other attempt early */
    expect_fate(&told, 2, TARRY_FATE_CREDITED);
    expect_clears(&told);
    expect_signal(&told, 1, 2, "0101", "11");
    expect_signal(&told, 2, 2, "0101", "11");
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers(&told, 1, 2, stripe);
        delivers(&told, 2, 2, stripe);
    }
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 2);
    story_end(&told);
}

static void who_is_lost_after_its_part_keeps_its_credit(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    delivers(&told, 0, 1, 1);
    sends_part(&told, 0, 1, 0);
    expect_combine(&told, 0, 1, 0);
    is_lost(&told, 0);
    expect_nothing(&told);
    is_combined(&told, 0, 1, 0);
    is_dropped(&told, 1, 0);
    is_dropped(&told, 2, 1); /* what the lost was credited with */
    is_credited(&told, 1, 1);
    expect_signal(&told, 1, 1, "1010", "11");
    expect_signal(&told, 2, 1, "1010", "11");
    delivers(&told, 1, 1, 0);
    delivers(&told, 1, 1, 1);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->workers_lost, 1);
    assert_int_equal(result->copies_coded, 3);
    story_end(&told);
}

/* Its part would have to be in the sum twice. */
static void who_comes_back_while_its_part_stands_waits(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    delivers(&told, 0, 1, 0);
    delivers(&told, 0, 1, 1);
    is_lost(&told, 0);
    joins(&told, 0);
    expect_nothing(&told);
    is_credited(&told, 1, 1);
    expect_send(&told, 0, TARRY_MESSAGE_SIGNAL);
    expect_signal(&told, 1, 1, "1010", "11");
    expect_signal(&told, 2, 1, "1010", "11");
    delivers(&told, 1, 1, 0);
    delivers(&told, 1, 1, 1);
    assert_true(expect_done(&told, TARRY_OK)->exact);
    starts(&told);
    told.epoch = 2;
    is_credited(&told, 0, 0);
    story_end(&told);
}

/* It is taken in anew once nobody else could make up for the attempt. */
static void who_came_back_is_called_when_it_is_needed(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    delivers(&told, 0, 1, 0);
    delivers(&told, 0, 1, 1);
    joins(&told, 0);
    is_lost(&told, 1);
    is_lost(&told, 2);
    expect_send(&told, 0, TARRY_MESSAGE_ROUND);
    expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_ERROR_COVERAGE);
    story_end(&told);
}

/* Worker 2 left with a chunk that it had dropped, whose only other holder is gone then. */
static void those_who_left_are_called_back_when_they_are_needed(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    is_credited(&told, 0, 0);
    is_dropped(&told, 2, 1);
    is_credited(&told, 2, 0);
    expect_clears(&told);
    expect_signal(&told, 2, 1, "0110", "11");
    delivers(&told, 2, 1, 0);
    is_lost(&told, 0);
    expect_recall(&told, 2, 1, 1);
    expect_resume(&told, 1, "10");
    expect_resume(&told, 2, "01");
    reports_in(&told, 2, 1, 2);
    expect_fate(&told, 2, TARRY_FATE_CREDITED);
    reports(&told, 1, 0);
    expect_fate(&told, 1, TARRY_FATE_CREDITED);
    expect_clears(&told);
    expect_signal(&told, 1, 2, "0101", "11");
    expect_signal(&told, 2, 2, "0101", "11");
    story_end(&told);
}

/* One step ends its last chunk, and opens another one again: of a worker that is given up. */
static void who_has_work_again_does_not_leave(void **state)
{
    (void)state;
    story told;
    plan_early(&told, 3, 3); /* each holds all */
    story_begin(&told);
    is_credited(&told, 1, 0);
    is_credited(&told, 0, 0);
    is_dropped(&told, 0, 1);
    for (uint64_t ms = 110; ms < 1100; ms += 110) {
        at(&told, ms);
        is_alive(&told, 0);
        if (ms == 220)
            expect_send(&told, 1, TARRY_MESSAGE_PROBE);
        is_alive(&told, 2);
    }
    at(&told, 1100);
    reports(&told, 0, 2);
    expect_left_out(&told, 1, TARRY_ABSENT_SILENT);
    assert_non_null(expect_fate(&told, 0, TARRY_FATE_CREDITED)->recalled);
    expect_nothing(&told);
    reports_in(&told, 0, 1, 1);
    expect_fate(&told, 0, TARRY_FATE_CREDITED);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "100100100", "1");
    expect_signal(&told, 2, 1, "100100100", "1");
    story_end(&told);
}

static void an_early_part_that_hangs_is_late_like_any_other(void **state)
{
    (void)state;
    story told;
    plan_early(&told, 3, 3); /* each holds all */
    story_begin(&told);
    is_credited(&told, 0, 0);
    is_dropped(&told, 1, 2);
    is_dropped(&told, 2, 1);
    fails(&told, 0, 1);
    fails(&told, 0, 2);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "100000000", "1");
    at(&told, 1);
    is_credited(&told, 1, 0);
    is_credited(&told, 2, 0);
    expect_signal(&told, 1, 1, "010001100", "1");
    expect_signal(&told, 2, 1, "001100010", "1");
    at(&told, 2);
    delivers(&told, 1, 1, 0);
    delivers(&told, 2, 1, 0);
    for (uint64_t ms = 102; ms < 240; ms += 20) {
        at(&told, ms);
        is_alive(&told, 0);
        if (told.effects->count > 0)
            break;
        is_alive(&told, 1);
        is_alive(&told, 2);
    }
    expect_left_out(&told, 0, TARRY_ABSENT_LATE);
    expect_recall(&told, 1, 2, 1);
    expect_recall(&told, 2, 1, 1);
    expect_send(&told, 1, TARRY_MESSAGE_RESUME);
    expect_send(&told, 2, TARRY_MESSAGE_RESUME);
    story_end(&told);
}

/* A server's card that carries a stripe every 10 ms. */
typedef struct card {
    story *told;
    uint64_t ms; /* when the last stripe was through */
} card;

/* So many stripes of the worker pass, from `first` on; everyone shows meanwhile that it is there.
 */
static void pass(card *of, uint32_t worker, uint32_t first, uint32_t count)
{
    for (uint32_t stripe = first; stripe < first + count; stripe++) {
        at(of->told, of->ms += 10);
        for (uint32_t each = 0; each < 8; each++)
            is_alive(of->told, each);
        delivers(of->told, worker, 1, stripe);
    }
}

static void leaves(story *told, uint32_t worker)
{
    is_credited(told, worker, 0);
    is_credited(told, worker, 1);
    if (worker == 0)
        for (uint32_t stripe = 0; stripe < 10; stripe++)
            expect_clear(told, stripe);
    expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
}

/*
 * Eight workers of which 0, 2, 4 and 6 do all, parts of ten stripes. The first three leave early.
 * 6 is signalled 50 ms later than the first: its first stripe passes 130 ms after that, and then
 * those of 2 and 4.
 */
static void the_last_waits_at_the_card(story *told, card *it)
{
    plan_early(told, 8, 2);
    told->settings.stripe_length = 1;
    story_begin(told);
    *it = (card){told, 0};
    leaves(told, 0);
    pass(it, 0, 0, 3);
    leaves(told, 2);
    pass(it, 2, 0, 1);
    pass(it, 0, 3, 1);
    leaves(told, 4);
    is_credited(told, 6, 0);
    is_credited(told, 6, 1);
    for (uint32_t worker = 0; worker < 8; worker++)
        if (!told->server->members[worker].left)
            expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    for (uint32_t stripe = 1; stripe < 7; stripe++) {
        pass(it, 2, stripe, 1);
        pass(it, 0, 3 + stripe, 1);
    }
    pass(it, 6, 0, 1);
    for (uint32_t stripe = 0; stripe < 3; stripe++) {
        pass(it, 4, stripe, 1);
        pass(it, 2, 7 + stripe, 1);
    }
    pass(it, 4, 3, 7);
}

/* Nine more stripes at the pace of its first would take longer than to do without. */
static void who_waits_for_others_at_the_card_is_not_late(void **state)
{
    (void)state;
    story told;
    card it;
    the_last_waits_at_the_card(&told, &it);
    pass(&it, 6, 1, 9);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 1);
    story_end(&told);
}

/* Nothing comes in any more: what it waits for is its own link. */
static void who_waits_for_nobody_is_late(void **state)
{
    (void)state;
    story told;
    card it;
    the_last_waits_at_the_card(&told, &it);
    uint64_t limit = server_late_limit_ns(told.server);
    while (told.effects->count == told.expected) {
        at(&told, it.ms += 10);
        for (uint32_t each = 0; each < 8 && told.effects->count == told.expected; each++)
            is_alive(&told, each);
    }
    expect_left_out(&told, 6, TARRY_ABSENT_LATE);
    assert_true(told.now - told.server->attempt_start_ns < limit);
    for (uint32_t worker = 0; worker < 8; worker++)
        if (worker != 6)
            expect_send(&told, worker, TARRY_MESSAGE_RESUME);
    story_end(&told);
}

/* What stood with the attempt is open again with the next one. */
static void those_who_left_send_again_in_the_next_attempt(void **state)
{
    (void)state;
    story told;
    three_leave(&told);
    the_first_leaves(&told);
    is_credited(&told, 1, 1);
    expect_signal(&told, 1, 1, "1010", "11");
    expect_signal(&told, 2, 1, "1010", "11");
    delivers(&told, 0, 1, 0);
    is_lost(&told, 1);
    expect_resume(&told, 0, "00");
    expect_resume(&told, 2, "10");
    reports_in(&told, 2, 0, 1);
    expect_fate(&told, 2, TARRY_FATE_CREDITED);
    expect_clears(&told);
    expect_signal(&told, 0, 2, "1010", "11");
    expect_signal(&told, 2, 2, "0110", "11");
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers(&told, 0, 2, stripe);
        delivers(&told, 2, 2, stripe);
    }
    assert_true(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 10;
    settings.early = true;
    tarry_plan *plan = edge_plan_cyclic(3, 3, 2, 1);
    assert_refused(plan, &settings, "averaged copies");
    settings.keep = TARRY_KEEP_CREDITED;
    settings.stop = TARRY_STOP_ERROR;
    settings.fill = TARRY_FILL_SCALE;
    assert_refused(plan, &settings, "what is missing");
    edge_plan_free(plan);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    tarry_plan *plan = edge_plan_cyclic(3, 3, 2, 1);
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 10;
    settings.keep = TARRY_KEEP_CREDITED;
    settings.early = true;
    server_creation made = {plan, settings};
    assert_true(fail_each_allocation(create_server, &made) > 10);
    edge_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_done_sends_before_the_others),
        cmocka_unit_test(no_stripe_is_complete_before_the_signal_to_all),
        cmocka_unit_test(a_loss_in_the_middle_of_an_early_part_withdraws_the_attempt),
        cmocka_unit_test(who_is_lost_after_its_part_keeps_its_credit),
        cmocka_unit_test(who_comes_back_while_its_part_stands_waits),
        cmocka_unit_test(who_came_back_is_called_when_it_is_needed),
        cmocka_unit_test(those_who_left_are_called_back_when_they_are_needed),
        cmocka_unit_test(who_has_work_again_does_not_leave),
        cmocka_unit_test(an_early_part_that_hangs_is_late_like_any_other),
        cmocka_unit_test(who_waits_for_others_at_the_card_is_not_late),
        cmocka_unit_test(who_waits_for_nobody_is_late),
        cmocka_unit_test(those_who_left_send_again_in_the_next_attempt),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
