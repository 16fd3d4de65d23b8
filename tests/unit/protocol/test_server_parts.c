/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge_plan.h"
#include "protocol/server/server_state.h"
#include "story.h"

/* Two workers that both hold both chunks, and one or two parts. */
static void pair_plan(story *told)
{
    story_plan(told, 2, 2);
    told->plan->parts = 2;
    told->plan->adaptive = true;
    edge_plan_random_decode(told->plan, 1);
}

static void expect_signals(story *told, uint32_t parts, const char *first, const char *second)
{
    expect_clear(told, 0);
    expect_signal(told, 0, 1, first, "1");
    expect_signal(told, 1, 1, second, "1");
    told->parts = parts;
}

static void expect_end(story *told, uint32_t parts)
{
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->parts, parts);
    assert_int_equal(result->copies_needed, 2 * parts);
}

/* The first round, in which each worker takes 2 ms for its chunk and 8 ms for its part. */
static void learn(story *told)
{
    story_begin(told);
    assert_int_equal(server_wanted_copies(told->server), 1);
    at(told, 2);
    reports(told, 0, 0);
    reports(told, 1, 0);
    /* Nothing is known of the links: there is nothing to wait for. */
    expect_signals(told, 1, "1001", "0110");
    at(told, 10);
    delivers(told, 0, 1, 0);
    delivers(told, 1, 1, 0);
    expect_end(told, 1);
}

static void it_waits_for_more_parts_if_that_is_sooner(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    learn(&told);
    starts(&told);
    at(&told, 12);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    /* One part would take 8 ms; two 4 ms, and 2 ms until they are there. */
    expect_nothing(&told);
    assert_true(tarry_server_deadline(told.server) == 13 * STORY_MS + 1);
    at(&told, 14);
    reports(&told, 0, 1);
    expect_nothing(&told);
    reports(&told, 1, 1);
    expect_signals(&told, 2, "1111", "1111");
    at(&told, 18);
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    expect_end(&told, 2);
    story_end(&told);
}

/* Parameters take 6 ms to come to the workers and a chunk 2 ms; the second worker is late. */
static void learn_the_way(story *told)
{
    story_begin(told);
    at(told, 8);
    reports(told, 0, 0);
    expect_nothing(told);
    at(told, 10);
    reports(told, 0, 1);
    expect_signals(told, 1, "1010", "1010");
    at(told, 18);
    delivers(told, 0, 1, 0);
    expect_end(told, 1);
}

static void the_way_of_the_parameters_is_no_part_of_what_a_chunk_takes(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    learn_the_way(&told);
    assert_true(told.server->way_time.mean == 6 * STORY_MS);
    assert_true(told.server->cover_time.mean == 4 * STORY_MS);
    starts(&told);
    at(&told, 26);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    /* 2 ms to wait, not 8, to save 4. */
    expect_nothing(&told);
    assert_true(tarry_server_deadline(told.server) == 27 * STORY_MS + 1);
    at(&told, 28);
    reports(&told, 0, 1);
    reports(&told, 1, 1);
    expect_signals(&told, 2, "1111", "1111");
    story_end(&told);
}

/* Chunks that take longer later on are no way back in time. */
static void a_way_takes_no_less_than_nothing(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    story_begin(&told);
    at(&told, 2);
    reports(&told, 0, 0);
    at(&told, 12);
    reports(&told, 0, 1);
    expect_signals(&told, 1, "1010", "1010");
    assert_true(told.server->way_time.samples == 1 && told.server->way_time.mean == 0);
    assert_true(told.server->cover_time.mean == 12 * STORY_MS);
    story_end(&told);
}

static void it_does_not_wait_if_one_part_is_sooner(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    learn(&told);
    starts(&told);
    at(&told, 15);
    reports(&told, 0, 0);
    reports(&told, 1, 0); /* 5 ms to wait, to save 4 */
    expect_signals(&told, 1, "1001", "0110");
    story_end(&told);
}

/* The second worker falls silent: the wait ends when it has cost as much as it could have saved. */
static void it_waits_no_longer_than_what_it_hopes_to_save(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    learn(&told);
    starts(&told);
    at(&told, 12);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    at(&told, 14);
    reports(&told, 0, 1);
    expect_nothing(&told);
    while (tarry_server_deadline(told.server) < 16 * STORY_MS) {
        told.now = tarry_server_deadline(told.server);
        time_passes(&told);
        if (told.effects->count > 0)
            break;
    }
    at(&told, 16);
    if (told.effects->count == 0)
        time_passes(&told);
    expect_signals(&told, 1, "1011", "1110");
    story_end(&told);
}

static void whoever_is_lost_is_not_waited_for(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    learn(&told);
    starts(&told);
    at(&told, 12);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    expect_nothing(&told);
    is_lost(&told, 1); /* chunk 1 is to be computed by the other one */
    expect_nothing(&told);
    assert_true(tarry_server_deadline(told.server) > told.now);
    at(&told, 14);
    reports(&told, 0, 1);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "1010", "1");
    story_end(&told);
}

/* With two parts one stripe is there already; the worker that is left has all chunks once. */
static void complete_stripes_are_given_up_for_fewer_parts(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    told.settings.stripe_length = 3; /* 4 stripes of one part, 2 of two */
    told.settings.reproducible = true;
    story_begin(&told);
    for (uint32_t slot = 0; slot < 2; slot++)
        for (uint32_t worker = 0; worker < 2; worker++)
            reports(&told, worker, slot);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    expect_signal(&told, 0, 1, "1111", "1100");
    expect_signal(&told, 1, 1, "1111", "1100");
    sends_part(&told, 0, 1, 0);
    sends_part(&told, 1, 1, 0);
    expect_combine(&told, 0, 1, 0);
    expect_combine(&told, 1, 1, 0);
    is_combined(&told, 0, 1, 0);
    is_combined(&told, 1, 1, 0);
    is_lost(&told, 1);
    for (uint32_t stripe = 0; stripe < 4; stripe++)
        expect_clear(&told, stripe);
    expect_signal(&told, 0, 2, "1010", "1111");
    told.parts = 1;
    for (uint32_t stripe = 0; stripe < 4; stripe++)
        delivers(&told, 0, 2, stripe);
    expect_end(&told, 1);
    story_end(&told);
}

/* The chunk that was lost is in no number of parts: a stripe with it stands until it is back. */
static void complete_stripes_stand_where_no_other_number_will_do(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    told.settings.stripe_length = 3;
    story_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    for (uint32_t stripe = 0; stripe < 4; stripe++)
        expect_clear(&told, stripe);
    expect_signal(&told, 0, 1, "1001", "1111");
    expect_signal(&told, 1, 1, "0110", "1111");
    told.parts = 1;
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    is_lost(&told, 1);
    expect_resume(&told, 0, "01");
    reports(&told, 0, 1);
    for (uint32_t stripe = 1; stripe < 4; stripe++)
        expect_clear(&told, stripe);
    expect_signal(&told, 0, 2, "1010", "0111");
    for (uint32_t stripe = 1; stripe < 4; stripe++)
        delivers(&told, 0, 2, stripe);
    expect_end(&told, 1);
    story_end(&told);
}

static void parts_of_another_number_are_rejected(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    story_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    expect_signals(&told, 1, "1001", "0110");
    const uint32_t wrong[] = {2, 3, 0};
    for (size_t i = 0; i < 3; i++) {
        tarry_message part = {
            .type = TARRY_MESSAGE_PART, .epoch = 1, .attempt = 1, .parts = wrong[i]};
        says(&told, 0, &part);
        expect_reject(&told, 0, TARRY_REJECT_RANGE);
    }
    story_end(&told);
}

/* At the deadline one chunk is there twice, the other one not at all: both numbers of parts lose
 * half of the sum, and two parts are sooner there. */
static void at_the_deadline_the_least_error_counts(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    told.settings.stop = TARRY_STOP_DEADLINE;
    told.settings.deadline_ns = 50 * STORY_MS;
    story_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 1, 1);
    at(&told, 50);
    time_passes(&told);
    expect_signals(&told, 2, "1100", "0011");
    story_end(&told);

    pair_plan(&told);
    told.settings.stop = TARRY_STOP_DEADLINE;
    told.settings.deadline_ns = 50 * STORY_MS;
    story_begin(&told);
    reports(&told, 0, 0); /* once only: two parts would lose half of it, too */
    at(&told, 50);
    time_passes(&told);
    expect_signals(&told, 1, "1000", "0010");
    story_end(&told);
}

static void slow_links_are_worth_more_copies(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    story_begin(&told);
    at(&told, 12);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    expect_signals(&told, 1, "1001", "0110");
    at(&told, 112);
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    expect_end(&told, 1);
    starts(&told);
    assert_int_equal(server_wanted_copies(told.server), 2);
    story_end(&told);
}

static void whole_workers_are_refused(void **state)
{
    (void)state;
    story told;
    pair_plan(&told);
    tarry_server *server = NULL;
    told.settings.credit = TARRY_CREDIT_WHOLE;
    assert_int_equal(tarry_server_create(told.plan, &told.settings, NULL, &server, NULL),
                     TARRY_ERROR_ARGUMENT);
    told.settings.credit = TARRY_CREDIT_CHUNK;
    told.settings.stop = TARRY_STOP_WORKERS;
    told.settings.workers_needed = 1;
    assert_int_equal(tarry_server_create(told.plan, &told.settings, NULL, &server, NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_null(server);
    edge_plan_free(told.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_for_more_parts_if_that_is_sooner),
        cmocka_unit_test(the_way_of_the_parameters_is_no_part_of_what_a_chunk_takes),
        cmocka_unit_test(a_way_takes_no_less_than_nothing),
        cmocka_unit_test(it_does_not_wait_if_one_part_is_sooner),
        cmocka_unit_test(it_waits_no_longer_than_what_it_hopes_to_save),
        cmocka_unit_test(whoever_is_lost_is_not_waited_for),
        cmocka_unit_test(complete_stripes_are_given_up_for_fewer_parts),
        cmocka_unit_test(complete_stripes_stand_where_no_other_number_will_do),
        cmocka_unit_test(parts_of_another_number_are_rejected),
        cmocka_unit_test(at_the_deadline_the_least_error_counts),
        cmocka_unit_test(slow_links_are_worth_more_copies),
        cmocka_unit_test(whole_workers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
