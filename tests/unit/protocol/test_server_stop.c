/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"
#include "test.h"

STORY(exact_fails_once_a_chunk_is_hopeless)
{
    story_play(told, 4, 2);
    at(told, 1);
    reports(told, 0, 0);
    is_lost(told, 1);
    assert_int_equal(tarry_server_next_hopeless(told->server, 0), 4);
    is_lost(told, 2); /* chunk 2 was at 1 and 2 */
    expect_finish(told);
    const tarry_round_result *result = expect_done(told, TARRY_ERROR_COVERAGE);
    assert_float_equal(result->expected_error, 0.75, 0);
    assert_int_equal(result->workers_lost, 2);
    assert_int_equal(result->signal_ns == TARRY_NEVER, true);
    assert_int_equal(tarry_server_next_hopeless(told->server, 0), 2);
    assert_int_equal(tarry_server_next_hopeless(told->server, 3), 4);
    assert_int_equal(tarry_server_finished(told->server, 0), 1);
}

STORY(a_chunk_that_no_holder_can_compute_is_hopeless)
{
    story_play(told, 3, 2);
    fails(told, 0, 0);
    fails(told, 0, 0);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    reports(told, 0, 0);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    fails(told, 2, 1);
    expect_finish(told);
    expect_done(told, TARRY_ERROR_COVERAGE);
    assert_int_equal(tarry_server_next_hopeless(told->server, 0), 0);
}

STORY(a_deadline_takes_what_there_is)
{
    story_plan(told, 4, 1);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 30 * STORY_MS;
    story_begin(told);
    expect_deadline(told, 30);
    at(told, 10);
    reports(told, 2, 0);
    fails(told, 1, 0);
    passes(told, 29);
    passes(told, 30);
    expect_signals(told);
    expect_deadline(told, 100);
    delivers(told, 2, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_float_equal(result->expected_error, 0.75, 0);
    assert_false(result->exact);

    /* The next one counts from its own start; with nothing finished the estimate is zero. */
    at(told, 1000);
    starts(told);
    expect_deadline(told, 1030);
    passes(told, 1030);
    expect_signals(told);
    result = expect_done(told, TARRY_OK);
    assert_float_equal(result->expected_error, 1, 0);
    assert_int_equal(result->round, 1);
    assert_int_equal(result->workers_heard, 0);
}

STORY(a_deadline_ends_early_when_all_is_recovered_or_nothing_can_come)
{
    story_plan(told, 2, 2);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = TARRY_NEVER; /* no time adds up to it */
    story_begin(told);
    at(told, 1);
    expect_deadline(told, 100);
    each_reports(told, 2, 0);
    expect_signals(told);
    each_delivers(told, 2, 1, 0);
    expect_exact(told);

    starts(told);
    expect_deadline(told, 100);
    fails(told, 0, 0);
    reports(told, 0, 1);
    fails(told, 1, 1);
    is_lost(told, 1);
    expect_signals(told);
    delivers(told, 0, 1, 0);
    assert_float_equal(expect_done(told, TARRY_OK)->expected_error, 0.5, 0);
}

STORY(the_error_rule_stops_at_its_limit)
{
    story_plan(told, 4, 1);
    told->settings.stop = TARRY_STOP_ERROR;
    told->settings.error_limit = 0.25;
    story_begin(told);
    each_reports(told, 3, 0);
    expect_signals(told);
    at(told, 3);
    reports(told, 3, 0); /* was under way; it does not help this attempt */
    each_delivers(told, 3, 1, 0);
    assert_float_equal(expect_done(told, TARRY_OK)->expected_error, 0.25, 0);

    /* Nothing more can come: what there is has to do. */
    starts(told);
    is_lost(told, 0);
    fails(told, 1, 0);
    reports(told, 2, 0);
    reports(told, 3, 0);
    expect_signals(told);
    delivers(told, 2, 1, 0);
    delivers(told, 3, 1, 0);
    assert_float_equal(expect_done(told, TARRY_OK)->expected_error, 0.5, 0);
}

STORY(the_workers_rule_waits_for_whole_workers)
{
    story_plan(told, 3, 2);
    told->settings.stop = TARRY_STOP_WORKERS;
    told->settings.workers_needed = 2;
    story_begin(told);
    each_reports(told, 3, 0); /* covers all, but no one is done */
    reports(told, 1, 1);
    reports(told, 0, 1);
    expect_signals(told);
    /* Credit is by chunk: worker 2's chunk is in psi too. */
    each_delivers(told, 3, 1, 0);
    expect_exact(told);

    starts(told);
    fails(told, 0, 1);
    reports(told, 0, 0);
    is_lost(told, 1); /* only worker 2 can still finish all */
    expect_finish(told);
    expect_done(told, TARRY_ERROR_COVERAGE);
}

STORY(whole_credit_counts_only_complete_workers)
{
    story_plan(told, 3, 2);
    told->settings.credit = TARRY_CREDIT_WHOLE;
    story_begin(told);
    each_reports(told, 3, 0);
    reports(told, 0, 1); /* chunks 0 and 1 are recovered */
    reports(told, 1, 1); /* chunk 2 too */
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1011", "1");
    expect_signal(told, 1, 1, "1110", "1");
    expect_signal(told, 2, 1, "1010", "1"); /* its finished chunk does not count */
    each_delivers(told, 2, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->copies_computed, 5);

    /* Who fails at one chunk earns nothing in the round. */
    starts(told);
    at(told, 7);
    fails(told, 0, 0);
    assert_int_equal(expect_left_out(told, 0, TARRY_ABSENT_FAILED)->waited_ns, 7 * STORY_MS);
    reports(told, 0, 1);
    is_lost(told, 2);
    expect_finish(told);
    expect_done(told, TARRY_ERROR_COVERAGE);
    assert_int_equal(tarry_server_next_hopeless(told->server, 0), 0);
}

TEST(all_workers_lost_ends_any_round)
{
    const tarry_stop stops[] = {TARRY_STOP_EXACT, TARRY_STOP_DEADLINE, TARRY_STOP_ERROR,
                                TARRY_STOP_WORKERS};
    for (size_t i = 0; i < 4; i++) {
        story told;
        story_plan(&told, 2, 2);
        told.settings.stop = stops[i];
        told.settings.deadline_ns = STORY_MS;
        told.settings.error_limit = 0.9;
        told.settings.workers_needed = 1;
        story_begin(&told);
        is_lost(&told, 0);
        is_lost(&told, 1);
        assert_int_equal(expect_done(&told, TARRY_ERROR_COVERAGE)->workers_lost, 2);
        /* With no one there the next round fails at once;
         * who comes back is used in the one after. */
        at(&told, 10);
        told.round++;
        happens(&told, &(tarry_event){.type = TARRY_EVENT_START});
        expect_done(&told, TARRY_ERROR_COVERAGE);
        joins(&told, 1);
        starts(&told);
        told.epoch = 2;
        reports(&told, 1, 0);
        if (stops[i] == TARRY_STOP_EXACT || stops[i] == TARRY_STOP_WORKERS)
            reports(&told, 1, 1);
        else if (stops[i] == TARRY_STOP_DEADLINE) {
            passes(&told, 11);
        }
        expect_signals(&told);
        delivers(&told, 1, 1, 0);
        expect_done(&told, TARRY_OK);
        story_end(&told);
    }
}

STORY(a_round_that_is_aborted_ends_at_once)
{
    story_play(told, 2, 2);
    each_reports(told, 2, 0);
    expect_signals(told);
    at(told, 4);
    is_aborted(told);
    sends_part(told, 0, 1, 0);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    reports(told, 0, 1);
    expect_reject(told, 0, TARRY_REJECT_STALE);
    is_refused(told, &(tarry_event){.type = TARRY_EVENT_ABORT}, TARRY_ERROR_STATE);
    told->effects = NULL;

    starts(told);
    tarry_message old = {.type = TARRY_MESSAGE_REPORT, .round = 0, .epoch = 1, .slot = 1};
    says(told, 0, &old); /* of the last round */
    expect_reject(told, 0, TARRY_REJECT_STALE);
    assert_int_equal(tarry_server_finished(told->server, 0), 0);
}

STORY(reports_that_make_no_sense_change_nothing)
{
    story_play(told, 2, 2);
    reports(told, 0, 0);
    reports(told, 0, 0);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    reports(told, 0, 2);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    told->round = 1;
    reports(told, 0, 1);
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    told->round = 0;
    reports(told, 2, 0);
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    happens(told, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = 2});
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    joins(told, 2);
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    assert_int_equal(tarry_server_finished(told->server, 0), 1);

    is_refused(told, &(tarry_event){.type = TARRY_EVENT_START}, TARRY_ERROR_STATE);
    is_refused(told, &(tarry_event){.type = TARRY_EVENT_COMPUTED}, TARRY_ERROR_ARGUMENT);
    is_refused(told, &(tarry_event){.type = TARRY_EVENT_ENCODED}, TARRY_ERROR_ARGUMENT);
    reports(told, 0, 1);
    expect_signals(told);
}

/* A restarted worker has nothing; what its old self still sends is of an old epoch. */
STORY(a_restarted_worker_begins_anew)
{
    story_play(told, 2, 2);
    reports(told, 1, 0);
    at(told, 5);
    joins(told, 1); /* without a LOST before */
    const tarry_message *round = expect_send(told, 1, TARRY_MESSAGE_ROUND);
    assert_int_equal(round->epoch, 2);
    assert_int_equal(round->round, 0);
    reports(told, 1, 1);
    expect_reject(told, 1, TARRY_REJECT_STALE);
    reports(told, 0, 0); /* chunk 1 is not there any more */
    told->epoch = 2;
    reports(told, 1, 0);
    expect_signals(told);
    delivers(told, 1, 1, 0);
    told->epoch = 1;
    delivers(told, 0, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->workers_heard, 2);
    assert_int_equal(result->copies_computed, 3);
}
