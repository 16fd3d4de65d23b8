/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of the parts that stand, in forms with feedback. */
#include "story.h"
#include "test.h"

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
    three_are_signalled(told, TARRY_COMPRESS_INT4);
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
    three_are_signalled(told, TARRY_COMPRESS_INT4);
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

/* Who was away while plans changed twice, and comes back when the first one is used again, has
 * turned to none: it hears what stands of the last round as if there had been no other plan. */
STORY(what_stands_is_known_after_plans_have_changed)
{
    three_are_signalled(told, TARRY_COMPRESS_INT4);
    all_deliver(told);
    is_lost(told, 1);
    story_adopt(told);
    story_adopt(told);
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
    three_are_signalled(told, TARRY_COMPRESS_INT4);
    all_deliver(told);
    told->settings.stripe_length = told->settings.dimension;
    story_adopt(told);
    begins(told);
    for (uint32_t worker = 0; worker < 3; worker++) {
        const tarry_message *round = expect_send(told, worker, TARRY_MESSAGE_ROUND);
        assert_int_equal(round->stood[0], 0);
        assert_int_equal(round->life, 2);
    }
}

STORY(of_a_round_that_failed_nothing_stands)
{
    three_are_signalled(told, TARRY_COMPRESS_INT4);
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
