/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"
#include "story.h"
#include "test.h"

/* Worker 2 says nothing from 0 ms on; the others were heard at 150 ms. It is probed at 201 ms. */
static void one_is_silent(story *told)
{
    story_play(told, 3, 2);
    expect_deadline(told, 100);
    passes(told, 100);
    at(told, 150);
    each_reports(told, 2, 0);
    expect_deadline(told, 200);
    passes(told, 201);
    expect_send(told, 2, TARRY_MESSAGE_PROBE);
    for (uint64_t ms = 302; ms < 1000; ms += 101) {
        at(told, ms);
        each_is_alive(told, 2);
    }
    assert_true(tarry_server_present(told->server, 2));
}

STORY(the_silent_are_probed_then_given_up)
{
    one_is_silent(told);
    at(told, 1000); /* 799 ms after the probe */
    each_is_alive(told, 2);
    assert_true(tarry_server_present(told->server, 2));
    at(told, 1010);
    is_alive(told, 1);
    const tarry_effect *silent = expect_left_out(told, 2, TARRY_ABSENT_SILENT);
    assert_int_equal(silent->waited_ns, 809 * STORY_MS);
    assert_int_equal(silent->limit_ns, 800 * STORY_MS);
    assert_false(tarry_server_present(told->server, 2));

    /* The round goes on without it: chunk 2 is left to worker 1. */
    reports(told, 1, 1);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1001", "1");
    expect_signal(told, 1, 1, "0110", "1");
    /* What it still says comes too late, and it is not probed again. */
    reports(told, 2, 0);
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    passes(told, 1111);
}

STORY(an_answer_in_time_saves)
{
    one_is_silent(told);
    at(told, 1000);
    is_alive(told, 2);
    at(told, 1100);
    each_is_alive(told, 2);
    assert_true(tarry_server_present(told->server, 2));
    reports(told, 2, 0);
    expect_signals(told);
}

/* Who has been seen to need long for an answer is given
 * median + 4 deviations, at least silence_ns. */
STORY(slow_answers_are_learned)
{
    one_is_silent(told);
    at(told, 1000);
    is_alive(told, 2); /* after 799 ms: the limit is 3 * 799 ms now */
    uint64_t probed = 0, lost = 0;
    for (uint64_t ms = 1050; ms < 4000 && lost == 0; ms += 50) {
        at(told, ms);
        is_alive(told, 0);
        if (!tarry_server_present(told->server, 2)) {
            const tarry_effect *silent = expect_left_out(told, 2, TARRY_ABSENT_SILENT);
            assert_int_equal(silent->limit_ns, 3 * 799 * STORY_MS);
            lost = ms;
        } else if (told->effects->count > 0) {
            expect_send(told, 2, TARRY_MESSAGE_PROBE);
            assert_int_equal(probed, 0);
            probed = ms;
        }
        is_alive(told, 1);
    }
    assert_in_range(probed, 1200, 1350);
    assert_in_range(lost, probed + 3 * 799, probed + 3 * 799 + 150);
}

/* A part comes in byte by byte: the worker is there, whatever else it does not get across. */
STORY(bytes_are_a_sign_of_life)
{
    one_is_silent(told);
    for (uint64_t ms = 1000; ms < 5000; ms += 50) {
        at(told, ms);
        is_heard(told, 2);
        expect_nothing(told);
        each_is_alive(told, 2);
    }
    assert_true(tarry_server_present(told->server, 2));
    is_heard(told, 3);
    expect_reject(told, 3, TARRY_REJECT_UNKNOWN);
    is_lost(told, 2);
    is_heard(told, 2);
    expect_reject(told, 2, TARRY_REJECT_UNKNOWN);
    happens(told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    told->expected = told->effects->count;
    is_heard(told, 0); /* between rounds */
}

/* Time goes on, with the others alive, until the server asks worker 2. */
static void is_asked(story *told)
{
    do {
        each_is_alive(told, 2);
        told->now += 50 * STORY_MS;
        time_passes(told);
    } while (told->effects->count == 0);
    expect_send(told, 2, TARRY_MESSAGE_PROBE);
}

/* What comes after bytes that were under way may be the answer to either probe. */
STORY(bytes_are_no_answer)
{
    one_is_silent(told);
    const recent *answers = &told->server->answers[2];
    is_heard(told, 2);
    is_asked(told);
    is_alive(told, 2);
    assert_int_equal(answers->count, 0);
    /* What comes after the next one is its answer. */
    is_asked(told);
    told->now += 50 * STORY_MS;
    is_alive(told, 2);
    assert_int_equal(answers->count, 1);
}

STORY(the_time_between_rounds_counts_for_nobodys_silence)
{
    story_play(told, 2, 1);
    at(told, 10);
    reports(told, 0, 0);
    is_aborted(told);
    assert_true(tarry_server_deadline(told->server) == TARRY_NEVER);
    passes(told, 500000); /* no round, no probe */
    at(told, 1000000);
    starts(told);
    expect_deadline(told, 1000090);
    passes(told, 1000091);
    /* Worker 1 had been silent for 10 ms when the last round ended, worker 0 for none. */
    passes(told, 1000192);
    expect_send(told, 1, TARRY_MESSAGE_PROBE);
    passes(told, 1000293);
    expect_send(told, 0, TARRY_MESSAGE_PROBE);
}

/* Rounds of 30 ms, one every 1000 ms: all of them shorter than the time between two looks. */
STORY(short_rounds_do_not_hide_the_silent)
{
    story_play(told, 2, 2);
    uint64_t probed = 0;
    for (uint64_t begin = 0;; begin += 1000) {
        assert_true(begin < 50000);
        passes(told, begin + 30);
        if (told->effects->count > 0 && probed > 0)
            break;
        if (told->effects->count > 0) {
            expect_send(told, 1, TARRY_MESSAGE_PROBE);
            probed = begin;
        }
        is_heard(told, 0);
        is_aborted(told);
        at(told, begin + 1000);
        starts(told);
    }
    /* It was probed once it had not been heard for 200 ms of rounds, and given 800 more. */
    assert_true(probed >= 6000 && probed <= 10000);
    const tarry_effect *silent = expect_left_out(told, 1, TARRY_ABSENT_SILENT);
    assert_in_range(silent->waited_ns, 800 * STORY_MS, 950 * STORY_MS);
}

STORY(time_in_which_the_server_was_held_up_does_not_count)
{
    one_is_silent(told);
    /* The look due at 1010 ms, 809 ms after the probe, comes late:
     * what has come in is heard first. */
    passes(told, 60000);
    assert_true(tarry_server_present(told->server, 2));
    expect_deadline(told, 60100);
    passes(told, 60101);
    expect_send(told, 0, TARRY_MESSAGE_PROBE);
    expect_send(told, 1, TARRY_MESSAGE_PROBE);
    expect_left_out(told, 2, TARRY_ABSENT_SILENT);
    assert_false(tarry_server_present(told->server, 2));
}

STORY(a_server_that_is_always_late_still_finds_the_dead)
{
    story_play(told, 2, 2);
    uint64_t ms = 0;
    while (tarry_server_present(told->server, 1)) {
        ms += 1000; /* ten times as late as it asked for */
        assert_true(ms < 60000);
        at(told, ms);
        is_alive(told, 0);
        told->expected = told->effects->count;
    }
    assert_true(tarry_server_present(told->server, 0));
}
