/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"
#include "test.h"

STORY(the_round_ends_when_every_part_is_summed)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    at(told, 7);
    delivers(told, 1, 1, 1);
    delivers(told, 0, 1, 0);
    delivers(told, 0, 1, 1);
    delivers(told, 2, 1, 1);
    delivers(told, 2, 1, 0);
    at(told, 9);
    sends_part(told, 1, 1, 0);
    expect_combine(told, 1, 1, 0);
    at(told, 11);
    is_combined(told, 1, 1, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_true(result->expected_error == 0);
    assert_int_equal(result->start_ns, 0);
    assert_int_equal(result->signal_ns, 5 * STORY_MS);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->copies_computed, 3);
    assert_int_equal(result->copies_needed, 3);
    assert_int_equal(result->workers_heard, 3);
    assert_int_equal(result->workers_lost, 0);
    assert_int_equal(result->upload_bytes, 3 * 10 * sizeof(float));
    /* 3 ROUND, 3 REPORT and 6 PART of 24 bytes,
     * and 3 SIGNAL with a byte of psi and one of stripes. */
    assert_int_equal(result->control_messages, 15);
    assert_int_equal(result->control_bytes, 12 * 24 + 3 * 26);
}

STORY(a_worker_that_dies_before_its_part_is_left_out_of_a_new_attempt)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    /* Copies that were under way when the signal went out count in the next attempt. */
    at(told, 6);
    reports(told, 1, 1);
    delivers(told, 0, 1, 0);
    at(told, 8);
    is_lost(told, 2);
    expect_clear(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 0, 2, "1001", "11");
    expect_signal(told, 1, 2, "0110", "11");
    at(told, 9);
    sends_part(told, 1, 1, 0);
    expect_reject(told, 1, TARRY_REJECT_STALE);
    is_combined(told, 0, 1, 0);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    sends_part(told, 2, 2, 0);
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    each_delivers(told, 2, 2, 0);
    each_delivers(told, 2, 2, 1);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->attempts, 2);
    assert_int_equal(result->workers_lost, 1);
    assert_int_equal(result->signal_ns, 5 * STORY_MS);
    /* All six parts, the stale one too, are 20 bytes; the dead worker's is not received. */
    assert_int_equal(result->upload_bytes, 6 * 20);
}

STORY(a_worker_may_die_after_its_part_came_in)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    delivers(told, 2, 1, 0);
    delivers(told, 2, 1, 1);
    at(told, 8);
    is_lost(told, 2);
    each_delivers(told, 2, 1, 0);
    each_delivers(told, 2, 1, 1);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_lost, 1);
}

/* Worker 2 dies with the only copy of chunk 2: worker 1 computes that next. */
STORY(workers_resume_with_what_is_missing)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    at(told, 8);
    is_lost(told, 2);
    expect_resume(told, 0, "00");
    expect_resume(told, 1, "01");
    at(told, 9);
    sends_part(told, 0, 1, 0); /* the attempt is withdrawn */
    expect_reject(told, 0, TARRY_REJECT_STALE);
    at(told, 15);
    reports(told, 1, 1);
    expect_clear(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 0, 2, "1001", "11");
    expect_signal(told, 1, 2, "0110", "11");
    each_delivers(told, 2, 2, 0);
    each_delivers(told, 2, 2, 1);
    expect_exact(told);
}

STORY(completed_stripes_stand)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    each_delivers(told, 3, 1, 0);
    delivers(told, 0, 1, 1);
    at(told, 7);
    reports(told, 1, 1);
    is_lost(told, 2);
    expect_clear(told, 1);
    expect_signal(told, 0, 2, "1001", "01");
    expect_signal(told, 1, 2, "0110", "01");
    sends_part(told, 0, 2, 0);
    expect_reject(told, 0, TARRY_REJECT_MISPLACED);
    each_delivers(told, 2, 2, 1);
    expect_exact(told);
}

/* Half of the numbers are exact; of the others a third of the chunks is missing. */
STORY(the_error_is_the_mean_over_stripes)
{
    story_plan(told, 3, 1);
    told->settings.stripe_length = 8; /* 8 and 2 numbers */
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 5 * STORY_MS;
    story_begin(told);
    each_reports(told, 3, 0);
    told->expected = told->effects->count;
    each_delivers(told, 3, 1, 0);
    at(told, 6);
    is_lost(told, 2);
    expect_clear(told, 1);
    expect_signal(told, 0, 2, "1", "01");
    expect_signal(told, 1, 2, "1", "01");
    each_delivers(told, 2, 2, 1);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_false(result->exact);
    assert_float_equal(result->expected_error, 0.2 / 3, 1e-15);
}

STORY(what_makes_no_sense_is_rejected_and_changes_nothing)
{
    three_are_signalled(told, TARRY_COMPRESS_NONE);
    delivers(told, 0, 1, 0);
    sends_part(told, 0, 1, 0);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    is_combined(told, 0, 1, 0);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    sends_part(told, 0, 1, 2);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    sends_part(told, 0, 2, 1);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    sends_part(told, 0, 0, 1);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    is_combined(told, 3, 1, 0);
    expect_reject(told, 3, TARRY_REJECT_RANGE);
    is_combined(told, 0, 1, 2);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    told->round = 1;
    sends_part(told, 0, 1, 1);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    told->round = 0;
    told->epoch = 2;
    sends_part(told, 0, 1, 1);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    told->epoch = 1;
    says(told, 7, &(tarry_message){.type = TARRY_MESSAGE_ALIVE, .epoch = 1});
    expect_reject(told, 7, TARRY_REJECT_UNKNOWN);
    for (tarry_message_type type = TARRY_MESSAGE_ROUND; type <= TARRY_MESSAGE_FINISH; type++) {
        says(told, 0, &(tarry_message){.type = type, .epoch = 1});
        expect_reject(told, 0, TARRY_REJECT_MISPLACED);
    }
    delivers(told, 0, 1, 1);
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers(told, 1, 1, stripe);
        delivers(told, 2, 1, stripe);
    }
    expect_exact(told);
    sends_part(told, 0, 1, 1);
    expect_reject(told, 0, TARRY_REJECT_STALE);
}

/* A worker without copies in psi is signalled, so that it stops; it has no part to send. */
STORY(a_worker_without_copies_sends_nothing)
{
    story_play(told, 2, 2);
    reports(told, 0, 0);
    reports(told, 0, 1);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1010", "1");
    expect_signal(told, 1, 1, "1010", "1");
    sends_part(told, 1, 1, 0);
    expect_reject(told, 1, TARRY_REJECT_MISPLACED);
    delivers(told, 0, 1, 0);
    assert_int_equal(expect_done(told, TARRY_OK)->workers_heard, 1);
}

STORY(a_worker_that_comes_during_an_attempt_is_used_by_the_next)
{
    story_play(told, 2, 2);
    is_lost(told, 1);
    reports(told, 0, 0);
    reports(told, 0, 1);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1010", "1");
    at(told, 2);
    joins(told, 1);
    assert_int_equal(expect_send(told, 1, TARRY_MESSAGE_ROUND)->epoch, 2);
    told->epoch = 2;
    reports(told, 1, 0);
    at(told, 3);
    is_lost(told, 0);
    expect_resume(told, 1, "01"); /* chunk 1 is done */
    reports(told, 1, 1);
    expect_clear(told, 0);
    expect_signal(told, 1, 2, "0101", "1");
    delivers(told, 1, 2, 0);
    expect_exact(told);
}

STORY(a_worker_that_comes_during_the_last_attempt_is_told_of_its_end)
{
    story_play(told, 2, 2);
    is_lost(told, 1);
    reports(told, 0, 0);
    reports(told, 0, 1);
    told->expected = told->effects->count;
    joins(told, 1);
    expect_send(told, 1, TARRY_MESSAGE_ROUND);
    delivers(told, 0, 1, 0);
    expect_send(told, 1, TARRY_MESSAGE_FINISH);
    expect_done(told, TARRY_OK);
}

/* All copies are waited for, and each stripe is summed in the order of workers. */
STORY(a_reproducible_sum_has_the_order_of_workers)
{
    story_plan(told, 3, 2);
    told->settings.reproducible = true;
    story_begin(told);
    for (uint32_t slot = 0; slot < 2; slot++)
        each_reports(told, 3, slot);
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal(told, worker, 1, "1111", "1");
    sends_part(told, 2, 1, 0);
    sends_part(told, 0, 1, 0);
    /* It waits as long as it takes. */
    for (uint64_t ms = 50; ms < 3000; ms += 50) {
        at(told, ms);
        each_is_alive(told, 3);
    }
    sends_part(told, 1, 1, 0);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_combine(told, worker, 1, 0);
    is_combined(told, 0, 1, 0);
    is_combined(told, 1, 1, 0);
    is_combined(told, 2, 1, 0);
    expect_exact(told);
}
