/* SPDX-License-Identifier: Apache-2.0 */
/* The error by norms, what comes first by them, and rounds of which only some chunks are sampled.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "edge_plan.h"
#include "protocol/server/server_state.h"
#include "story.h"

static void expect_signals(story *told)
{
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < tarry_plan_workers(told->plan); worker++)
        if (tarry_server_present(told->server, worker))
            expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
}

static void reports_norm(story *told, uint32_t worker, uint32_t slot, float norm)
{
    says(told, worker,
         &(tarry_message){.type = TARRY_MESSAGE_REPORT,
                          .round = told->round,
                          .epoch = told->epoch,
                          .slot = slot,
                          .normed = true,
                          .norm = norm});
}

/* Four workers with a chunk each; all report, with norms 1, 2, 2 and 4. */
static void begin_with_norms(story *told, tarry_stop stop, double limit)
{
    story_plan(told, 4, 1);
    told->settings.stop = stop;
    told->settings.error_limit = limit;
    told->settings.deadline_ns = 30 * STORY_MS;
    told->settings.importance = true;
    story_begin(told);
    at(told, 1);
}

static void the_error_is_what_is_missing_of_the_squares(void **state)
{
    (void)state;
    story told;
    begin_with_norms(&told, TARRY_STOP_ERROR, 0);
    const float norms[] = {1, 2, 2, 4};
    for (uint32_t worker = 0; worker < 4; worker++)
        reports_norm(&told, worker, 0, norms[worker]);
    expect_signals(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        delivers(&told, worker, 1, 0);
    assert_true(expect_done(&told, TARRY_OK)->exact);
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_true(tarry_server_norm(told.server, chunk) == norms[chunk]);

    told.settings.stop = TARRY_STOP_ERROR;
    starts(&told);
    reports_norm(&told, 3, 0, 2); /* squares 1, 4, 4 and now 4: 9 of 13 are missing */
    is_lost(&told, 0);
    is_lost(&told, 1);
    is_lost(&told, 2);
    expect_signals(&told);
    delivers(&told, 3, 1, 0);
    assert_float_equal(expect_done(&told, TARRY_OK)->expected_error, 9.0 / 13, 1e-15);
    story_end(&told);
}

static void the_rule_stops_once_the_large_ones_are_there(void **state)
{
    (void)state;
    story told;
    begin_with_norms(&told, TARRY_STOP_ERROR, 0.4);
    /* As long as no norm is known chunks are equal; one that is not known counts as the mean. */
    reports_norm(&told, 3, 0, 4);
    expect_nothing(&told);
    reports_norm(&told, 2, 0, 2); /* squares 16 and 4, others 10 each: 20 of 40 */
    expect_nothing(&told);
    reports_norm(&told, 0, 0, 1); /* 16, 4, 1, and 7 for the other one: 7 of 28 */
    expect_signals(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        if (worker != 1)
            delivers(&told, worker, 1, 0);
    assert_float_equal(expect_done(&told, TARRY_OK)->expected_error, 0.25, 1e-15);

    starts(&told);
    reports_norm(&told, 3, 0, 4); /* 12 of 28 are missing by the last norms; none is of chunk 1 */
    expect_nothing(&told);
    reports_norm(&told, 2, 0, 2);
    expect_signals(&told);
    delivers(&told, 2, 1, 0);
    delivers(&told, 3, 1, 0);
    assert_float_equal(expect_done(&told, TARRY_OK)->expected_error, 8.0 / 28, 1e-15);
    story_end(&told);
}

static void zeros_and_what_is_said_unasked_count_for_nothing(void **state)
{
    (void)state;
    story told;
    begin_with_norms(&told, TARRY_STOP_ERROR, 0.5);
    reports_norm(&told, 0, 0, 0); /* only zeros are known: they are equal */
    expect_nothing(&told);
    reports_norm(&told, 1, 0, 0);
    expect_signals(&told);
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    assert_float_equal(expect_done(&told, TARRY_OK)->expected_error, 0.5, 0);
    story_end(&told);

    story_plan(&told, 4, 1);
    told.settings.stop = TARRY_STOP_ERROR;
    told.settings.error_limit = 0.75;
    story_begin(&told);
    reports_norm(&told, 0, 0, 1e-6F); /* nobody has asked for it */
    expect_signals(&told);
    delivers(&told, 0, 1, 0);
    assert_float_equal(expect_done(&told, TARRY_OK)->expected_error, 0.75, 0);
    assert_true(tarry_server_norm(told.server, 0) < 0);
    story_end(&told);
}

static void of_several_norms_the_first_workers_counts(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 3, 3);
    told.settings.importance = true;
    told.settings.stop = TARRY_STOP_ERROR;
    told.settings.reproducible = true;
    told.settings.error_limit = 0;
    story_begin(&told);
    reports_norm(&told, 2, 0, 5); /* chunk 2, then 0, then 1 */
    reports_norm(&told, 2, 1, 6);
    reports_norm(&told, 1, 2, 7); /* chunk 0 */
    assert_true(tarry_server_norm(told.server, 0) == 7);
    reports_norm(&told, 0, 0, 8);
    assert_true(tarry_server_norm(told.server, 0) == 8);
    reports_norm(&told, 0, 2, 9); /* chunk 2 */
    reports_norm(&told, 1, 1, 10);
    assert_true(tarry_server_norm(told.server, 2) == 9);
    story_end(&told);
}

/* Begins until a round has sampled `least` to `most` chunks; stories begin one as they are told. */
static void begin_sampled(story *told, uint32_t least, uint32_t most)
{
    for (uint64_t seed = 1;; seed++) {
        story_plan(told, 4, 1);
        told->settings.sample_chunks = 2;
        told->settings.sample_seed = seed;
        story_begin(told);
        uint32_t sampled = 0;
        for (uint32_t chunk = 0; chunk < 4; chunk++)
            sampled += tarry_server_weight(told->server, chunk) > 0;
        if (sampled >= least && sampled <= most)
            return;
        told->expected = told->effects->count; /* all at once, or nothing */
        story_end(told);
    }
}

static void only_what_is_sampled_is_waited_for(void **state)
{
    (void)state;
    story told;
    begin_sampled(&told, 1, 3);
    uint32_t sampled = 0;
    for (uint32_t worker = 0; worker < 4; worker++) {
        float weight = tarry_server_weight(told.server, worker);
        assert_true(weight == 0 || weight == 2);
        assert_int_equal(tarry_server_finished(told.server, worker), 0);
        sampled += weight > 0;
    }
    for (uint32_t worker = 0; worker < 4; worker++) {
        if (tarry_server_weight(told.server, worker) > 0)
            continue;
        reports(&told, worker, 0); /* nobody has asked for it */
        expect_reject(&told, worker, TARRY_REJECT_DUPLICATE);
        is_lost(&told, worker); /* and the round does without it */
        break;
    }
    for (uint32_t worker = 0, count = 0; worker < 4; worker++) {
        if (tarry_server_weight(told.server, worker) == 0)
            continue;
        expect_nothing(&told);
        reports(&told, worker, 0);
        if (++count == sampled)
            expect_signals(&told);
    }
    for (uint32_t worker = 0; worker < 4; worker++)
        if (tarry_server_weight(told.server, worker) > 0)
            delivers(&told, worker, 1, 0);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->chunks_sampled, sampled);
    assert_int_equal(result->copies_computed, sampled);
    assert_float_equal(result->expected_error, 0, 0);
    assert_float_equal(result->sampling_error, 1, 1e-15); /* 1 / (1/2) - 1 */
    story_end(&told);
}

static void a_round_that_samples_nothing_is_a_sum_of_zeros(void **state)
{
    (void)state;
    for (uint64_t seed = 1;; seed++) {
        story told;
        story_plan(&told, 4, 1);
        told.settings.sample_chunks = 1;
        told.settings.sample_seed = seed;
        story_begin(&told);
        uint32_t rounds = 0;
        for (; rounds < 40; rounds++) {
            uint32_t sampled = 0;
            for (uint32_t chunk = 0; chunk < 4; chunk++)
                sampled += tarry_server_weight(told.server, chunk) > 0;
            if (sampled == 0)
                break; /* and over already */
            for (uint32_t worker = 0; worker < 4; worker++)
                if (tarry_server_weight(told.server, worker) > 0)
                    reports(&told, worker, 0);
            expect_signals(&told);
            for (uint32_t worker = 0; worker < 4; worker++)
                if (tarry_server_weight(told.server, worker) > 0)
                    delivers(&told, worker, 1, 0);
            expect_done(&told, TARRY_OK);
            told.round++;
            happens(&told, &(tarry_event){.type = TARRY_EVENT_START});
            for (uint32_t worker = 0; worker < 4; worker++) {
                const tarry_message *round = expect_send(&told, worker, TARRY_MESSAGE_ROUND);
                assert_true(round->weights[0] == tarry_server_weight(told.server, worker));
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
            const tarry_round_result *result = expect_done(&told, TARRY_OK);
            assert_true(result->exact);
            assert_int_equal(result->chunks_sampled, 0);
            story_end(&told);
            return;
        }
        story_end(&told);
    }
}

/* Three workers with each chunk, and up to three parts; the round has norms of all, and one chunk
 * at all workers, when it is over. */
static void begin_in_parts(story *told, const float norms[3])
{
    story_plan(told, 3, 3);
    told->plan->parts = 3;
    told->plan->adaptive = true;
    edge_plan_random_decode(told->plan, 1);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 30 * STORY_MS;
    told->settings.importance = true;
    story_begin(told);
    for (uint32_t worker = 0; worker < 3; worker++)
        reports_norm(told, worker, 0, norms[worker]);
    expect_signals(told);
    told->parts = 1;
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(told, worker, 1, 0);
    expect_done(told, TARRY_OK);
    starts(told);
    at(told, 2);
    for (uint32_t worker = 0; worker < 3; worker++) /* worker j has chunk 0 as its (3 - j)-th */
        reports_norm(told, worker, (3 - worker) % 3, norms[0]);
    at(told, 31);
}

/* As much is missing of any number of parts. By these norms the quotient of the sums is larger for
 * three parts than for two, in its last bit. */
static void errors_that_rounding_tells_apart_are_equal(void **state)
{
    (void)state;
    const float norms[] = {0.1F, 0.1F, 0.4F};
    story told;
    begin_in_parts(&told, norms);
    time_passes(&told);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 3; worker++)
        assert_int_equal(expect_send(&told, worker, TARRY_MESSAGE_SIGNAL)->parts, 3);
    story_end(&told);
}

/* Not lost beside what is 1e30 times as much. */
static void what_counts_for_little_counts(void **state)
{
    (void)state;
    const float norms[] = {1e15F, 1, 1};
    story told;
    begin_in_parts(&told, norms);
    time_passes(&told);
    expect_signals(&told);
    told.parts = 3;
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    double error = expect_done(&told, TARRY_OK)->expected_error;
    assert_true(fabs(error / 2e-30 - 1) < 1e-6);
    story_end(&told);
}

static void large_chunks_come_first_in_a_dynamic_order(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 3, 3);
    told.settings.importance = true;
    told.settings.pick = TARRY_PICK_SHARE;
    told.settings.stop = TARRY_STOP_ERROR;
    told.settings.error_limit = 0;
    story_begin(&told);
    tarry_message first = {.type = TARRY_MESSAGE_REPORT, .epoch = 1, .normed = true, .next = 3};
    const float norms[] = {3, 1, 2};
    for (uint32_t worker = 0; worker < 3;
         worker++) { /* each its own chunk, whatever else follows */
        first.norm = norms[worker];
        first.sequence = 1;
        happens(&told,
                &(tarry_event){.type = TARRY_EVENT_MESSAGE, .worker = worker, .message = &first});
        told.expected = told.effects->count;
    }
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    expect_done(&told, TARRY_OK);
    told.round++;
    happens(&told, &(tarry_event){.type = TARRY_EVENT_START});
    const uint32_t orders[3][3] = {{0, 2, 1}, {2, 1, 0}, {1, 0, 2}};
    for (uint32_t worker = 0; worker < 3; worker++) {
        const tarry_message *round = expect_send(&told, worker, TARRY_MESSAGE_ROUND);
        assert_non_null(round->ranked);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(round->ranked[i], orders[worker][i]);
    }
    story_end(&told);
}

static void norms_outlive_the_server(void **state)
{
    (void)state;
    story told;
    begin_with_norms(&told, TARRY_STOP_ERROR, 0);
    reports_norm(&told, 3, 0, 4);
    reports_norm(&told, 2, 0, 2);
    size_t size = tarry_server_checkpoint_size(told.server);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    assert_int_equal(tarry_server_checkpoint(told.server, bytes), TARRY_OK);
    tarry_server *next;
    assert_int_equal(tarry_server_create(told.plan, &told.settings, NULL, &next, NULL), TARRY_OK);
    assert_int_equal(tarry_server_restore(next, bytes, size, NULL), TARRY_OK);
    const float norms[] = {-1, -1, 2, 4};
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_true(tarry_server_norm(next, chunk) == norms[chunk]);
    tarry_server_free(next);
    tarry_server_settings other = told.settings;
    other.importance = false;
    assert_int_equal(tarry_server_create(told.plan, &other, NULL, &next, NULL), TARRY_OK);
    assert_int_equal(tarry_server_restore(next, bytes, size, NULL), TARRY_ERROR_FORMAT);
    tarry_server_free(next);
    free(bytes);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_is_what_is_missing_of_the_squares),
        cmocka_unit_test(the_rule_stops_once_the_large_ones_are_there),
        cmocka_unit_test(zeros_and_what_is_said_unasked_count_for_nothing),
        cmocka_unit_test(of_several_norms_the_first_workers_counts),
        cmocka_unit_test(only_what_is_sampled_is_waited_for),
        cmocka_unit_test(a_round_that_samples_nothing_is_a_sum_of_zeros),
        cmocka_unit_test(errors_that_rounding_tells_apart_are_equal),
        cmocka_unit_test(what_counts_for_little_counts),
        cmocka_unit_test(large_chunks_come_first_in_a_dynamic_order),
        cmocka_unit_test(norms_outlive_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
