/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/server_state.h"
#include "story.h"

static void passes(story *told, uint64_t ms)
{
    at(told, ms);
    time_passes(told);
}

/* Worker 2 says nothing from 0 ms on; the others were heard at 150 ms. It is probed at 201 ms. */
static void one_is_silent(story *told)
{
    story_plan(told, 3, 2);
    story_begin(told);
    expect_deadline(told, 100);
    passes(told, 100);
    at(told, 150);
    reports(told, 0, 0);
    reports(told, 1, 0);
    expect_deadline(told, 200);
    passes(told, 201);
    expect_send(told, 2, TARRY_MESSAGE_PROBE);
    for (uint64_t ms = 302; ms < 1000; ms += 101) {
        at(told, ms);
        is_alive(told, 0);
        is_alive(told, 1);
    }
    assert_true(tarry_server_present(told->server, 2));
}

static void the_silent_are_probed_then_given_up(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    at(&told, 1000); /* 799 ms after the probe */
    is_alive(&told, 0);
    is_alive(&told, 1);
    assert_true(tarry_server_present(told.server, 2));
    at(&told, 1010);
    is_alive(&told, 1);
    assert_false(tarry_server_present(told.server, 2));

    /* The round goes on without it: chunk 2 is left to worker 1. */
    reports(&told, 1, 1);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "1001", "1");
    expect_signal(&told, 1, 1, "0110", "1");
    /* What it still says comes too late, and it is not probed again. */
    reports(&told, 2, 0);
    expect_reject(&told, 2, TARRY_REJECT_UNKNOWN);
    passes(&told, 1111);
    story_end(&told);
}

static void an_answer_in_time_saves(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    at(&told, 1000);
    is_alive(&told, 2);
    at(&told, 1100);
    is_alive(&told, 0);
    is_alive(&told, 1);
    assert_true(tarry_server_present(told.server, 2));
    reports(&told, 2, 0);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    story_end(&told);
}

/* Who has been seen to need long for an answer is given
 * median + 4 deviations, at least silence_ns. */
static void slow_answers_are_learned(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    at(&told, 1000);
    is_alive(&told, 2); /* after 799 ms: the limit is 3 * 799 ms now */
    uint64_t probed = 0, lost = 0;
    for (uint64_t ms = 1050; ms < 4000 && lost == 0; ms += 50) {
        at(&told, ms);
        is_alive(&told, 0);
        if (told.effects->count > 0) {
            expect_send(&told, 2, TARRY_MESSAGE_PROBE);
            assert_int_equal(probed, 0);
            probed = ms;
        }
        is_alive(&told, 1);
        if (!tarry_server_present(told.server, 2))
            lost = ms;
    }
    assert_in_range(probed, 1200, 1350);
    assert_in_range(lost, probed + 3 * 799, probed + 3 * 799 + 150);
    story_end(&told);
}

/* A part comes in byte by byte: the worker is there, whatever else it does not get across. */
static void bytes_are_a_sign_of_life(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    for (uint64_t ms = 1000; ms < 5000; ms += 50) {
        at(&told, ms);
        is_heard(&told, 2);
        expect_nothing(&told);
        for (uint32_t worker = 0; worker < 2; worker++)
            is_alive(&told, worker);
    }
    assert_true(tarry_server_present(told.server, 2));
    is_heard(&told, 3);
    expect_reject(&told, 3, TARRY_REJECT_UNKNOWN);
    is_lost(&told, 2);
    is_heard(&told, 2);
    expect_reject(&told, 2, TARRY_REJECT_UNKNOWN);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    told.expected = told.effects->count;
    is_heard(&told, 0); /* between rounds */
    story_end(&told);
}

/* Time goes on, with the others alive, until the server asks worker 2. */
static void is_asked(story *told)
{
    do {
        is_alive(told, 0);
        is_alive(told, 1);
        told->now += 50 * STORY_MS;
        time_passes(told);
    } while (told->effects->count == 0);
    expect_send(told, 2, TARRY_MESSAGE_PROBE);
}

/* What comes after bytes that were under way may be the answer to either probe. */
static void bytes_are_no_answer(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    const recent *answers = &told.server->answers[2];
    is_heard(&told, 2);
    is_asked(&told);
    is_alive(&told, 2);
    assert_int_equal(answers->count, 0);
    /* What comes after the next one is its answer. */
    is_asked(&told);
    told.now += 50 * STORY_MS;
    is_alive(&told, 2);
    assert_int_equal(answers->count, 1);
    story_end(&told);
}

static void the_time_between_rounds_counts_for_nobodys_silence(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 1);
    story_begin(&told);
    at(&told, 10);
    reports(&told, 0, 0);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    expect_send(&told, 1, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_ERROR_INTERRUPTED);
    assert_true(tarry_server_deadline(told.server) == TARRY_NEVER);
    passes(&told, 500000); /* no round, no probe */
    at(&told, 1000000);
    starts(&told);
    expect_deadline(&told, 1000100);
    passes(&told, 1000100);
    /* Worker 1 had been silent for 10 ms when the last round ended, worker 0 for none. */
    passes(&told, 1000201);
    expect_send(&told, 0, TARRY_MESSAGE_PROBE);
    expect_send(&told, 1, TARRY_MESSAGE_PROBE);
    story_end(&told);
}

static void time_in_which_the_server_was_held_up_does_not_count(void **state)
{
    (void)state;
    story told;
    one_is_silent(&told);
    /* The look due at 1010 ms, 809 ms after the probe, comes late:
     * what has come in is heard first. */
    passes(&told, 60000);
    assert_true(tarry_server_present(told.server, 2));
    expect_deadline(&told, 60100);
    passes(&told, 60101);
    expect_send(&told, 0, TARRY_MESSAGE_PROBE);
    expect_send(&told, 1, TARRY_MESSAGE_PROBE);
    assert_false(tarry_server_present(told.server, 2));
    story_end(&told);
}

static void a_server_that_is_always_late_still_finds_the_dead(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 2);
    story_begin(&told);
    uint64_t ms = 0;
    while (tarry_server_present(told.server, 1)) {
        ms += 1000; /* ten times as late as it asked for */
        assert_true(ms < 60000);
        at(&told, ms);
        is_alive(&told, 0);
        told.expected = told.effects->count;
    }
    assert_true(tarry_server_present(told.server, 0));
    story_end(&told);
}

/* Four workers with two copies of each chunk, all finished at 0 ms; all but worker 3 deliver at
 * 10 ms, so that its part is late 200 ms after the signal, the least patience. */
static void three_of_four_deliver(story *told)
{
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(told, worker, 0);
    reports(told, 3, 0);
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(told, worker, 1);
    at(told, 10);
    delivers(told, 0, 1, 0);
    expect_deadline(told, 100);
    delivers(told, 1, 1, 0);
    delivers(told, 2, 1, 0);
    passes(told, 100);
    expect_deadline(told, 200);
    passes(told, 199);
}

static void a_late_worker_is_passed_over_where_that_costs_nothing(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    three_of_four_deliver(&told);
    passes(&told, 200);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 2, "1011", "1"); /* chunk 0 without worker 3 */
    expect_signal(&told, 1, 2, "1111", "1");
    expect_signal(&told, 2, 2, "1110", "1"); /* chunk 3 without worker 3 */
    expect_signal(&told, 3, 2, "1010", "1"); /* nothing of its own: it stops encoding */
    /* It is there, but its part of attempt 1 must not be summed, nor one of attempt 2. */
    at(&told, 205);
    sends_part(&told, 3, 1, 0);
    expect_reject(&told, 3, TARRY_REJECT_STALE);
    sends_part(&told, 3, 2, 0);
    expect_reject(&told, 3, TARRY_REJECT_MISPLACED);
    delivers(&told, 0, 2, 0);
    delivers(&told, 1, 2, 0);
    delivers(&told, 2, 2, 0);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 2);
    assert_int_equal(result->workers_lost, 0);
    /* The next round counts on it again. */
    starts(&told);
    story_end(&told);
}

/* The part that is due has come in while the server was busy: it stands behind another message. */
static void a_server_that_was_held_up_hears_before_it_passes_anyone_over(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    three_of_four_deliver(&told);
    at(&told, 5000);
    is_alive(&told, 0);
    delivers(&told, 3, 1, 0);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 1);
    story_end(&told);
}

static void a_late_worker_is_waited_for_if_the_sum_would_be_worse(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 1);
    story_begin(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 0);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    at(&told, 10);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    passes(&told, 90);
    passes(&told, 190);
    is_alive(&told, 3);
    at(&told, 200);
    is_alive(&told, 3);
    /* As long again, and then twice as long again. */
    for (uint64_t ms = 250; ms < 400; ms += 50) {
        at(&told, ms);
        for (uint32_t worker = 0; worker < 4; worker++)
            is_alive(&told, worker);
    }
    expect_deadline(&told, 400);
    at(&told, 401);
    delivers(&told, 3, 1, 0);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 1);
    story_end(&told);
}

static void nobody_is_late_while_most_are_not_done(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 0);
    told.expected = told.effects->count;
    at(&told, 10);
    delivers(&told, 0, 1, 0);
    for (uint64_t ms = 50; ms < 5000; ms += 50) {
        at(&told, ms);
        for (uint32_t worker = 0; worker < 4; worker++)
            is_alive(&told, worker);
    }
    story_end(&told);
}

/* The rule asks for all four workers: leaving one out would break it. */
static void a_late_worker_that_the_stop_rule_needs_is_waited_for(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    told.settings.stop = TARRY_STOP_WORKERS;
    told.settings.workers_needed = 4;
    story_begin(&told);
    for (uint32_t slot = 0; slot < 2; slot++)
        for (uint32_t worker = 0; worker < 4; worker++)
            reports(&told, worker, slot);
    told.expected = told.effects->count;
    at(&told, 10);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    passes(&told, 100);
    passes(&told, 200);
    expect_nothing(&told);
    delivers(&told, 3, 1, 0);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 1);
    story_end(&told);
}

static void all_are_there(story *told, uint64_t ms)
{
    at(told, ms);
    for (uint32_t worker = 0; worker < 4; worker++)
        is_alive(told, worker);
}

/* Four workers with two copies of each chunk; the signal is at 100 ms, with one copy of each, and
 * all but worker 3 deliver at 110 ms: its part is late at 300 ms. */
static void a_needed_part_does_not_come(story *told)
{
    all_are_there(told, 90);
    at(told, 100);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(told, worker, 0);
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    at(told, 110);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(told, worker, 1, 0);
    all_are_there(told, 200);
    all_are_there(told, 300);
    expect_nothing(told);
}

/* Once waiting for it beyond the limit has cost the 100 ms that it took to compute everything. */
static void others_make_up_for_a_late_worker_that_is_needed(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    a_needed_part_does_not_come(&told);
    all_are_there(&told, 399);
    expect_nothing(&told);
    passes(&told, 400);
    expect_resume(&told, 0, "00");
    expect_resume(&told, 1, "00");
    expect_resume(&told, 2, "01"); /* chunk 3 */
    at(&told, 405);
    sends_part(&told, 3, 1, 0);
    expect_reject(&told, 3, TARRY_REJECT_STALE);
    reports(&told, 2, 1);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 2, "1001", "1");
    expect_signal(&told, 1, 2, "0101", "1");
    expect_signal(&told, 2, 2, "0110", "1"); /* chunk 3 is its now, of the holders 2 and 3 */
    expect_signal(&told, 3, 2, "1010", "1"); /* nothing of its own */
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 2, 0);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->attempts, 2);
    story_end(&told);
}

/* It may come just before that. */
static void a_late_worker_that_is_needed_may_still_come(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    a_needed_part_does_not_come(&told);
    all_are_there(&told, 399);
    delivers(&told, 3, 1, 0);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 1);
    story_end(&told);
}

/* The other copy of chunk 3 can't be computed: worker 3 is waited for, whatever it takes. */
static void a_late_worker_that_nobody_can_make_up_for_is_waited_for(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    fails(&told, 2, 1);
    a_needed_part_does_not_come(&told);
    for (uint64_t ms = 350; ms < 5000; ms += 50) {
        all_are_there(&told, ms);
        expect_nothing(&told);
    }
    delivers(&told, 3, 1, 0);
    assert_true(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

/*
 * Nothing more could come when the signal went out; then worker 2 came back. Without the late
 * worker 1 the sum would be as good, but the rule does not hold while worker 2 computes: the round
 * would go on to its deadline, instead of ending with one more part.
 */
static void a_late_worker_is_not_passed_over_to_go_on_computing(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 3, 2);
    told.settings.stop = TARRY_STOP_DEADLINE;
    told.settings.deadline_ns = 10000 * STORY_MS;
    story_begin(&told);
    is_lost(&told, 2);
    fails(&told, 0, 0);
    reports(&told, 0, 1);
    reports(&told, 1, 0);
    fails(&told, 1, 1);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "0011", "1"); /* chunk 1 is at both */
    expect_signal(&told, 1, 1, "1100", "1");
    joins(&told, 2);
    expect_send(&told, 2, TARRY_MESSAGE_ROUND);
    at(&told, 10);
    delivers(&told, 0, 1, 0);
    passes(&told, 100);
    passes(&told, 200);
    expect_nothing(&told);
    delivers(&told, 1, 1, 0);
    expect_send(&told, 2, TARRY_MESSAGE_FINISH);
    assert_false(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

/* Combining may take its time; the server must not ask to be called at a time that has passed. */
static void the_deadline_is_ahead_while_parts_are_combined(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 2);
    story_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    told.expected = told.effects->count;
    at(&told, 10);
    sends_part(&told, 0, 1, 0);
    expect_combine(&told, 0, 1, 0);
    sends_part(&told, 1, 1, 0);
    expect_combine(&told, 1, 1, 0);
    for (int look = 0; look < 20; look++) {
        uint64_t deadline = tarry_server_deadline(told.server);
        assert_true(deadline > told.now);
        told.now = deadline;
        is_alive(&told, 0);
        is_alive(&told, 1);
    }
    is_combined(&told, 0, 1, 0);
    is_combined(&told, 1, 1, 0);
    expect_done(&told, TARRY_OK);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_silent_are_probed_then_given_up),
        cmocka_unit_test(an_answer_in_time_saves),
        cmocka_unit_test(slow_answers_are_learned),
        cmocka_unit_test(bytes_are_a_sign_of_life),
        cmocka_unit_test(bytes_are_no_answer),
        cmocka_unit_test(the_time_between_rounds_counts_for_nobodys_silence),
        cmocka_unit_test(time_in_which_the_server_was_held_up_does_not_count),
        cmocka_unit_test(a_server_that_is_always_late_still_finds_the_dead),
        cmocka_unit_test(a_server_that_was_held_up_hears_before_it_passes_anyone_over),
        cmocka_unit_test(a_late_worker_is_passed_over_where_that_costs_nothing),
        cmocka_unit_test(a_late_worker_is_waited_for_if_the_sum_would_be_worse),
        cmocka_unit_test(nobody_is_late_while_most_are_not_done),
        cmocka_unit_test(a_late_worker_that_the_stop_rule_needs_is_waited_for),
        cmocka_unit_test(others_make_up_for_a_late_worker_that_is_needed),
        cmocka_unit_test(a_late_worker_that_is_needed_may_still_come),
        cmocka_unit_test(a_late_worker_that_nobody_can_make_up_for_is_waited_for),
        cmocka_unit_test(a_late_worker_is_not_passed_over_to_go_on_computing),
        cmocka_unit_test(the_deadline_is_ahead_while_parts_are_combined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
