/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic orders, as stories with times. */
#include "edge_plan.h"
#include "tale.h"
#include "test.h"

TALE(shares_come_with_the_round)
{
    two_share_four(it);
    at(&it->told, 10);
    finishes(it, 0, 0, 2);
    expect_order(it, 0, TARRY_MESSAGE_NEWS, "0000", "0101"); /* this is its last one */
    finishes(it, 1, 0, 2);
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0000", "0101");
    at(&it->told, 20);
    finishes(it, 0, 2, 4);
    expect_nothing(&it->told);
    finishes(it, 1, 2, 4);
    expect_signals(&it->told);
}

/* Worker 1 has finished its own share at 20 ms, while worker 0 is at its first chunk still. */
static void a_share_is_taken_over(tale *it)
{
    two_share_four(it);
    at(&it->told, 10);
    finishes(it, 1, 0, 2);
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0000", "0101");
    at(&it->told, 20);
    finishes(it, 1, 2, 4);
    expect_order(it, 0, TARRY_MESSAGE_NEWS, "0000", "0111");
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0100", "0001");
}

/* Worker 1 goes on with what was planned for worker 0; both are told. */
TALE(a_slow_workers_chunks_are_taken_over)
{
    a_share_is_taken_over(it);
    is_at(it, 1, 1);
    at(&it->told, 30);
    finishes(it, 1, 1, 4);
    /* Nothing else is left: it helps with the last one. */
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0001", "0000");
    assert_int_equal(at_which(it, 1), 3);
    is_at(it, 1, 3);
    at(&it->told, 40);
    finishes(it, 1, 3, 4);
    expect_signals(&it->told);
}

/* Worker 0 was as fast as the other one, and hangs: help comes once waiting beyond the time when it
 * should have been done has cost as much as the help does. */
TALE(a_worker_that_hangs_is_helped_in_time)
{
    two_share_four(it);
    at(&it->told, 10);
    has_finished(it, 0, 0, 2);
    has_finished(it, 1, 0, 2);
    at(&it->told, 20);
    finishes(it, 1, 2, 4);
    expect_nothing(&it->told);
    while (it->told.effects->count == 0) {
        assert_true(it->told.now < 50 * STORY_MS);
        it->told.now = tarry_server_deadline(it->told.server);
        time_passes(&it->told);
        books_agree(it->told.server);
    }
    assert_true(it->told.now >= 27 * STORY_MS && it->told.now <= 36 * STORY_MS);
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0100", "0001");
}

/* Worker 1 rests while copies come from others in time; when one does not, it is asked to help.
 * That one comes after all: it helps the other. */
TALE(a_rester_helps_and_drops_what_is_settled)
{
    all_hold_all(it, 3, 3, 1);
    tale_begin(it);
    expect_order(it, 0, TARRY_MESSAGE_ROUND, "100", "011");
    expect_order(it, 1, TARRY_MESSAGE_ROUND, "010", "101");
    expect_order(it, 2, TARRY_MESSAGE_ROUND, "100", "011");
    at(&it->told, 10);
    finishes(it, 1, 1, 3);
    expect_nothing(&it->told);
    assert_int_equal(at_which(it, 1), 3);
    at(&it->told, 13);
    time_passes(&it->told);
    books_agree(it->told.server);
    expect_send(&it->told, 1, TARRY_MESSAGE_NEWS);
    uint32_t helped = at_which(it, 1);
    assert_true(helped != 3 && helped != 1);
    is_at(it, 1, helped);
    /* Position s of worker 1 is chunk 2 - s: at 0 it helps worker 2, at 2 worker 0. */
    at(&it->told, 15);
    finishes(it, helped == 0 ? 2 : 0, 0, 3);
    const tarry_message *news = expect_send(&it->told, 1, TARRY_MESSAGE_NEWS);
    assert_true(bitset_test(news->barred, helped));
    assert_int_equal(at_which(it, 1), 3);
    is_at(it, 1, 3); /* the other one is late as well */
    expect_send(&it->told, 1, TARRY_MESSAGE_NEWS);
    assert_int_equal(at_which(it, 1), 2 - helped);
}

TALE(a_lost_workers_chunks_pass_on_without_a_word)
{
    two_share_four(it);
    at(&it->told, 5);
    is_lost(&it->told, 1);
    books_agree(it->told.server);
    at(&it->told, 10);
    finishes(it, 0, 0, 2);
    at(&it->told, 20);
    finishes(it, 0, 2, 1);
    at(&it->told, 30);
    finishes(it, 0, 1, 3);
    at(&it->told, 40);
    finishes(it, 0, 3, 4);
    expect_signals(&it->told);
}

/* What worker 0 can't compute is planned for worker 1, which was told not to go there by itself. */
TALE(a_failed_chunk_passes_on)
{
    two_share_four(it);
    at(&it->told, 10);
    fails_at(it, 0, 0, 2);
    assert_true(
        bitset_test(it->told.server->steering->plans + it->told.server->steering->set_start[1], 3));
    expect_order(it, 1, TARRY_MESSAGE_NEWS, "0001", "0100");
    has_finished(it, 1, 0, 3);
    at(&it->told, 20);
    has_finished(it, 1, 3, 2);
    has_finished(it, 0, 2, 4);
    at(&it->told, 30);
    finishes(it, 1, 2, 4);
    expect_signals(&it->told);
}

TALE(who_joins_in_the_middle_takes_a_share)
{
    all_hold_all(it, 2, 4, 1);
    tale_make_server(it);
    joins(&it->told, 0);
    happens(&it->told, &(tarry_event){.type = TARRY_EVENT_START});
    expect_order(it, 0, TARRY_MESSAGE_ROUND, "1111", "0000");
    at(&it->told, 10);
    finishes(it, 0, 0, 1);
    at(&it->told, 15);
    joins(&it->told, 1);
    books_agree(it->told.server);
    expect_order(it, 1, TARRY_MESSAGE_ROUND, "1000", "0111");
    expect_nothing(&it->told); /* worker 0 goes to chunk 2 next, as was planned before */
    at(&it->told, 20);
    has_finished(it, 0, 1, 2);
    at(&it->told, 25);
    has_finished(it, 1, 0, 1);
    at(&it->told, 30);
    finishes(it, 0, 2, 3);
    expect_signals(&it->told);
}

TALE(a_withdrawn_attempt_is_planned_anew)
{
    two_share_four(it);
    at(&it->told, 10);
    has_finished(it, 0, 0, 2);
    has_finished(it, 1, 0, 2);
    at(&it->told, 20);
    has_finished(it, 1, 2, 4);
    finishes(it, 0, 2, 4);
    expect_signals(&it->told);
    at(&it->told, 30);
    is_lost(&it->told, 1);
    books_agree(it->told.server);
    expect_order(it, 0, TARRY_MESSAGE_RESUME, "0101", "0000");
    assert_int_equal(at_which(it, 0), 1);
    at(&it->told, 31);
    is_at(it, 0, 1);
    at(&it->told, 40);
    finishes(it, 0, 1, 3);
    at(&it->told, 50);
    finishes(it, 0, 3, 4);
    expect_signals(&it->told);
}

/* While the news of the takeover are on their way, worker 0 has gone to the very chunk. */
TALE(news_that_cross_a_report_do_no_harm)
{
    a_share_is_taken_over(it);
    at(&it->told, 21);
    finishes(it, 0, 0, 2);
    assert_int_equal(at_which(it, 0), 4);
    expect_anything(it);
    /* The news have come, chunk 2 was barred, and dropped. */
    at(&it->told, 22);
    is_at(it, 0, 4);
    assert_int_equal(at_which(it, 0), 4);
    expect_anything(it);
    at(&it->told, 30);
    finishes(it, 1, 1, 4);
    expect_signals(&it->told);
}

/* The taker is lost just then: what the victim dropped is its again, and it is told so. */
TALE(what_was_barred_is_wanted_again_once_its_taker_is_lost)
{
    a_share_is_taken_over(it);
    is_lost(&it->told, 1);
    books_agree(it->told.server);
    expect_order(it, 0, TARRY_MESSAGE_NEWS, "0111", "0000");
    at(&it->told, 30);
    for (uint32_t slot = 0; slot < 4; slot++)
        finishes(it, 0, slot, slot + 1);
    expect_signals(&it->told);
}

/* The arrival `epoch` of the worker, with which it counts its words from 1. */
static void comes(tale *it, uint32_t worker, uint32_t epoch)
{
    joins(&it->told, worker);
    it->told.epoch = epoch;
    it->sequence[worker] = 0;
}

/* It has the first state. */
static void comes_to_vote(tale *it, uint32_t worker, uint32_t epoch)
{
    comes(it, worker, epoch);
    expect_send(&it->told, worker, TARRY_MESSAGE_ASK);
    says(&it->told, worker,
         &(tarry_message){.type = TARRY_MESSAGE_STATE, .epoch = epoch, .from = TARRY_NO_WORKER});
}

/* Between two rounds, with the state: it takes part in the next one from its start. */
TALE(who_comes_anew_is_heard_from_its_first_word_on)
{
    all_hold_all(it, 2, 4, 1);
    it->told.settings.sum = TARRY_SUM_EVERYWHERE;
    tale_make_server(it);
    comes_to_vote(it, 0, 1);
    comes_to_vote(it, 1, 1);
    starts(&it->told);
    for (uint32_t words = 0; words < 3; words++)
        is_at(it, 1, 0);
    is_aborted(&it->told);
    comes_to_vote(it, 1, 2);
    starts(&it->told);
    finishes(it, 1, 0, 1); /* not what it was told */
    assert_int_equal(at_which(it, 1), 1);
    expect_anything(it);
}
