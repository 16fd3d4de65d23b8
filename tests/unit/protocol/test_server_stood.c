/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of the parts that stand, in forms with feedback. */
#include "story.h"
#include "test.h"

/* Three workers, two copies of each chunk, two stripes; all are signalled at 5 ms. */
static void three_are_signalled(story *told)
{
    story_plan(told, 3, 2);
    told->settings.stripe_length = 5;
    told->settings.compress = TARRY_COMPRESS_INT4;
    story_begin(told);
    at(told, 5);
    each_reports(told, 3, 0);
    expect_clear(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 0, 1, "1001", "11");
    expect_signal(told, 1, 1, "0101", "11");
    expect_signal(told, 2, 1, "0110", "11");
}

static void all_deliver(story *told)
{
    for (uint32_t worker = 0; worker < 3; worker++) {
        delivers(told, worker, 1, 1);
        delivers(told, worker, 1, 0);
    }
    expect_done(told, TARRY_OK);
}

static void expect_stood(const tarry_message *message, uint32_t first, uint32_t second)
{
    assert_non_null(message->stood);
    assert_int_equal(message->stood[0], first);
    assert_int_equal(message->stood[1], second);
}

/* The round begins for all who are there, who hear what stands of theirs. */
static void begins(story *told)
{
    told->round++;
    happens(told, &(tarry_event){.type = TARRY_EVENT_START});
}

STORY(all_hear_that_their_parts_stand)
{
    three_are_signalled(told);
    all_deliver(told);
    at(told, 10);
    begins(told);
    for (uint32_t worker = 0; worker < 3; worker++) {
        const tarry_message *round = expect_send(told, worker, TARRY_MESSAGE_ROUND);
        expect_stood(round, 1, 1);
        assert_int_equal(round->life, 1);
    }
}

/* Stripe 0 is complete when worker 0 dies, stripe 1 not; when it comes back it hears just that, and
 * its epoch of then. */
STORY(who_died_hears_what_stands_of_its_life_before)
{
    three_are_signalled(told);
    each_delivers(told, 3, 1, 0);
    delivers(told, 2, 1, 1);
    at(told, 6);
    reports(told, 2, 1);
    is_lost(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 1, 2, "0101", "01");
    expect_signal(told, 2, 2, "0101", "01");
    joins(told, 0);
    const tarry_message *round = expect_send(told, 0, TARRY_MESSAGE_ROUND);
    expect_stood(round, 0, 0); /* of the round before: there was none */
    delivers(told, 1, 2, 1);
    delivers(told, 2, 2, 1);
    const tarry_message *finish = expect_send(told, 0, TARRY_MESSAGE_FINISH);
    expect_stood(finish, 1, 0);
    expect_done(told, TARRY_OK);
    begins(told);
    expect_stood(expect_send(told, 0, TARRY_MESSAGE_ROUND), 1, 0);
    expect_stood(expect_send(told, 1, TARRY_MESSAGE_ROUND), 1, 1);
    expect_stood(expect_send(told, 2, TARRY_MESSAGE_ROUND), 1, 1);
}

/* The server of the next plan, in the place of the one before. */
static void turns_to_the_server_of(story *told, const tarry_plan *plan, size_t stripe_length)
{
    tarry_server_settings settings = told->settings;
    settings.stripe_length = stripe_length;
    tarry_server *next;
    assert_ok(tarry_server_create(plan, &settings, NULL, &next, NULL));
    assert_ok(tarry_server_adopt(next, told->server, NULL));
    tarry_server_free(told->server);
    told->server = next;
    told->effects = NULL;
    told->expected = 0;
}

/* Who was away while plans changed twice, and comes back when the first one is used again, has
 * turned to none: it hears what stands of the last round as if there had been no other plan. */
STORY(what_stands_is_known_after_plans_have_changed)
{
    three_are_signalled(told);
    all_deliver(told);
    is_lost(told, 1);
    turns_to_the_server_of(told, told->plan, told->settings.stripe_length);
    turns_to_the_server_of(told, told->plan, told->settings.stripe_length);
    begins(told);
    for (uint32_t worker = 0; worker < 3; worker += 2)
        expect_stood(expect_send(told, worker, TARRY_MESSAGE_ROUND), 1, 1);
    joins(told, 1);
    const tarry_message *round = expect_send(told, 1, TARRY_MESSAGE_ROUND);
    expect_stood(round, 1, 1);
    assert_int_equal(round->life, 1);
}

/* Nothing of other stripes stands: what workers have of them is void. */
STORY(another_number_of_stripes_begins_another_life)
{
    three_are_signalled(told);
    all_deliver(told);
    turns_to_the_server_of(told, told->plan, told->settings.dimension);
    begins(told);
    for (uint32_t worker = 0; worker < 3; worker++) {
        const tarry_message *round = expect_send(told, worker, TARRY_MESSAGE_ROUND);
        assert_int_equal(round->stood[0], 0);
        assert_int_equal(round->life, 2);
    }
}

STORY(of_a_round_that_failed_nothing_stands)
{
    three_are_signalled(told);
    each_delivers(told, 3, 1, 0);
    happens(told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_stood(expect_send(told, worker, TARRY_MESSAGE_FINISH), 0, 0);
    expect_done(told, TARRY_ERROR_INTERRUPTED);
    begins(told);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_stood(expect_send(told, worker, TARRY_MESSAGE_ROUND), 0, 0);
}

STORY(other_forms_say_nothing)
{
    story_plan(told, 1, 1);
    told->settings.compress = TARRY_COMPRESS_INT8;
    story_begin(told);
    reports(told, 0, 0);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1", "1");
    delivers(told, 0, 1, 0);
    expect_done(told, TARRY_OK);
    begins(told);
    assert_null(expect_send(told, 0, TARRY_MESSAGE_ROUND)->stood);
}
