/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that sample some of the chunks only. */
#include "protocol/server/server_state.h"
#include "story.h"
#include "test.h"

static uint32_t count_sampled(const story *told)
{
    uint32_t sampled = 0;
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        sampled += server_weight(told->server, chunk) > 0;
    return sampled;
}

static void the_sampled_deliver(story *told)
{
    for (uint32_t worker = 0; worker < 4; worker++)
        if (server_weight(told->server, worker) > 0)
            delivers(told, worker, 1, 0);
}

/* Begins until a round has sampled `least` to `most` chunks; stories begin one as they are told. */
static void begin_sampled(story *told, tarry_stop stop, uint32_t least, uint32_t most)
{
    for (uint64_t seed = 1;; seed++) {
        story_plan(told, 4, 1);
        told->settings.stop = stop;
        told->settings.deadline_ns = 30 * STORY_MS;
        told->settings.sample_chunks = 2;
        told->settings.sample_seed = seed;
        story_begin(told);
        uint32_t sampled = count_sampled(told);
        if (sampled >= least && sampled <= most)
            return;
        told->expected = told->effects->count; /* all at once, or nothing */
        story_end(told);
    }
}

STORY(only_what_is_sampled_is_waited_for)
{
    begin_sampled(told, TARRY_STOP_EXACT, 1, 3);
    const uint32_t sampled = count_sampled(told);
    for (uint32_t worker = 0; worker < 4; worker++) {
        float weight = server_weight(told->server, worker);
        assert_true(weight == 0 || weight == 2);
        assert_int_equal(tarry_server_finished(told->server, worker), 0);
    }
    for (uint32_t worker = 0; worker < 4; worker++) {
        if (server_weight(told->server, worker) > 0)
            continue;
        reports(told, worker, 0); /* which was not asked for */
        expect_reject(told, worker, TARRY_REJECT_DUPLICATE);
        is_lost(told, worker); /* the round does not need it */
        break;
    }
    for (uint32_t worker = 0, count = 0; worker < 4; worker++) {
        if (server_weight(told->server, worker) == 0)
            continue;
        expect_nothing(told);
        reports(told, worker, 0);
        if (++count == sampled)
            expect_signals(told);
    }
    the_sampled_deliver(told);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->chunks_sampled, sampled);
    assert_int_equal(result->copies_computed, sampled);
    assert_float_equal(result->expected_error, 0, 0);
    assert_float_equal(result->sampling_error, 1, 1e-15); /* 1 / (1/2) - 1 */
}

TEST(a_round_that_samples_nothing_is_a_sum_of_zeros)
{
    for (uint64_t seed = 1;; seed++) {
        story told;
        story_plan(&told, 4, 1);
        told.settings.sample_chunks = 1;
        told.settings.sample_seed = seed;
        story_begin(&told);
        uint32_t rounds = 0;
        for (; rounds < 40; rounds++) {
            if (count_sampled(&told) == 0)
                break; /* and over already */
            for (uint32_t worker = 0; worker < 4; worker++)
                if (server_weight(told.server, worker) > 0)
                    reports(&told, worker, 0);
            expect_signals(&told);
            the_sampled_deliver(&told);
            expect_done(&told, TARRY_OK);
            told.round++;
            happens(&told, &(tarry_event){.type = TARRY_EVENT_START});
            for (uint32_t worker = 0; worker < 4; worker++) {
                const tarry_message *round = expect_send(&told, worker, TARRY_MESSAGE_ROUND);
                assert_true(round->weights[0] == server_weight(told.server, worker));
            }
        }
        if (rounds == 40) {
            story_end(&told);
            continue;
        }
        if (rounds == 0)
            told.expected = told.effects->count;
        if (rounds > 0) { /* ROUNDs were expected: nothing has to be computed */
            expect_signals(&told);
            const tarry_round_result *result = expect_exact(&told);
            assert_int_equal(result->chunks_sampled, 0);
            story_end(&told);
            return;
        }
        story_end(&told);
    }
}

/* What is not sampled is not missing: of those sampled all but one are. */
STORY(the_error_is_over_what_is_sampled)
{
    begin_sampled(told, TARRY_STOP_DEADLINE, 2, 3);
    const uint32_t sampled = count_sampled(told);
    uint32_t which = 0;
    while (server_weight(told->server, which) == 0)
        which++;
    reports(told, which, 0);
    passes(told, 30);
    expect_signals(told);
    delivers(told, which, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_false(result->exact);
    assert_true(result->expected_error == (sampled - 1.0) / sampled);
}
