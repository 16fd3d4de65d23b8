/* SPDX-License-Identifier: Apache-2.0 */
/* A worker is lost, or leaves politely: what follows from it follows in the same step. No time
 * passes in these stories after it is gone. test_server_attempt.c has those of an attempt. */
#include "tale.h"
#include "test.h"

/* Worker 1 rests, and takes over what worker 0 was at. */
TALE(lost_while_computing)
{
    all_hold_all(it, 3, 3, 1);
    has_begun(it);
    at(&it->told, 10);
    finishes(it, 1, 1, 3);
    expect_nothing(&it->told);
    is_lost(&it->told, 0);
    expect_send(&it->told, 1, TARRY_MESSAGE_NEWS);
    assert_int_equal(at_which(it, 1), 2); /* chunk 0 */
    is_at(it, 1, 2);
    has_finished(it, 1, 2, 3); /* it may be asked to help worker 2 */
    finishes(it, 2, 0, 3);
    expect_signals(&it->told);
}

/* The parts of the others complete the sum. */
static void the_others_deliver(story *told)
{
    each_delivers(told, 2, 1, 0);
    each_delivers(told, 2, 1, 1);
    assert_true(expect_done(told, TARRY_OK)->exact);
}

/* What it has sent counts, also what is still to be summed. */
STORY(lost_after_its_last_byte)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    delivers(told, 2, 1, 0);
    sends_part(told, 2, 1, 1);
    expect_combine(told, 2, 1, 1);
    is_lost(told, 2);
    expect_nothing(told);
    is_combined(told, 2, 1, 1);
    the_others_deliver(told);
}

/* A worker that leaves hands back all that it has not finished. The others take it over at once,
 * and what it did finish counts. */
TALE(one_that_leaves_politely_is_not_waited_for)
{
    two_share_four(it);
    at(&it->told, 10);
    has_finished(it, 0, 0, 2);
    has_finished(it, 1, 0, 2);
    has_failed_at(it, 0, 2, 3);
    has_failed_at(it, 0, 3, 1);
    has_failed_at(it, 0, 1, 4);
    has_finished(it, 1, 2, 1);
    finishes(it, 1, 1, 4);
    expect_clear(&it->told, 0);
    assert_true(bitset_test(expect_send(&it->told, 0, TARRY_MESSAGE_SIGNAL)->psi, 0));
    expect_send(&it->told, 1, TARRY_MESSAGE_SIGNAL);
    each_delivers(&it->told, 2, 1, 0);
    assert_true(expect_done(&it->told, TARRY_OK)->exact);
}

/* The same while worker 1 rests: it is told in the step in which the chunk is handed back. */
TALE(what_is_handed_back_goes_to_who_rests)
{
    all_hold_all(it, 3, 3, 1);
    has_begun(it);
    at(&it->told, 10);
    finishes(it, 1, 1, 3);
    expect_nothing(&it->told);
    fails_at(it, 0, 0, 3);
    expect_send(&it->told, 1, TARRY_MESSAGE_NEWS);
    assert_int_equal(at_which(it, 1), 2);
}

/* With the plan's order, and in the middle of an attempt: it breaks nothing. */
STORY(chunks_handed_back_after_the_signal_break_nothing)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    fails(told, 2, 1);
    expect_nothing(told);
    delivers(told, 2, 1, 0);
    delivers(told, 2, 1, 1);
    the_others_deliver(told);
}

/* A rule that takes whatever there is does not wait for one that has nothing more to give. */
STORY(the_last_to_hand_back_ends_the_computing)
{
    story_plan(told, 2, 1);
    told->settings.stop = TARRY_STOP_ERROR;
    story_begin(told);
    reports(told, 0, 0);
    fails(told, 1, 0);
    expect_signals(told);
    delivers(told, 0, 1, 0);
    assert_false(expect_done(told, TARRY_OK)->exact);
}
