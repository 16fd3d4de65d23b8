/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of the parts that stand, in forms with feedback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

/* Three workers, two copies of each chunk, two stripes; all are signalled at 5 ms. */
static void three_are_signalled(story *told)
{
    story_plan(told, 3, 2);
    told->settings.stripe_length = 5;
    told->settings.compress = TARRY_COMPRESS_INT4;
    story_begin(told);
    at(told, 5);
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(told, worker, 0);
    expect_clear(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 0, 1, "1001", "11");
    expect_signal(told, 1, 1, "0101", "11");
    expect_signal(told, 2, 1, "0110", "11");
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

static void all_hear_that_their_parts_stand(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    for (uint32_t worker = 0; worker < 3; worker++) {
        delivers(&told, worker, 1, 1);
        delivers(&told, worker, 1, 0);
    }
    expect_done(&told, TARRY_OK);
    at(&told, 10);
    begins(&told);
    for (uint32_t worker = 0; worker < 3; worker++) {
        const tarry_message *round = expect_send(&told, worker, TARRY_MESSAGE_ROUND);
        expect_stood(round, 1, 1);
        assert_int_equal(round->life, 1);
    }
    story_end(&told);
}

/* Stripe 0 is complete when worker 0 dies, stripe 1 not; when it comes back it hears just that, and
 * its epoch of then. */
static void who_died_hears_what_stands_of_its_life_before(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    delivers(&told, 2, 1, 1);
    at(&told, 6);
    reports(&told, 2, 1);
    is_lost(&told, 0);
    expect_clear(&told, 1);
    expect_signal(&told, 1, 2, "0101", "01");
    expect_signal(&told, 2, 2, "0101", "01");
    joins(&told, 0);
    const tarry_message *round = expect_send(&told, 0, TARRY_MESSAGE_ROUND);
    expect_stood(round, 0, 0); /* of the round before: there was none */
    delivers(&told, 1, 2, 1);
    delivers(&told, 2, 2, 1);
    const tarry_message *finish = expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    expect_stood(finish, 1, 0);
    expect_done(&told, TARRY_OK);
    begins(&told);
    expect_stood(expect_send(&told, 0, TARRY_MESSAGE_ROUND), 1, 0);
    expect_stood(expect_send(&told, 1, TARRY_MESSAGE_ROUND), 1, 1);
    expect_stood(expect_send(&told, 2, TARRY_MESSAGE_ROUND), 1, 1);
    story_end(&told);
}

static void of_a_round_that_failed_nothing_stands(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_stood(expect_send(&told, worker, TARRY_MESSAGE_FINISH), 0, 0);
    expect_done(&told, TARRY_ERROR_INTERRUPTED);
    begins(&told);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_stood(expect_send(&told, worker, TARRY_MESSAGE_ROUND), 0, 0);
    story_end(&told);
}

static void other_forms_say_nothing(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 1, 1);
    told.settings.compress = TARRY_COMPRESS_INT8;
    story_begin(&told);
    reports(&told, 0, 0);
    expect_clear(&told, 0);
    expect_signal(&told, 0, 1, "1", "1");
    delivers(&told, 0, 1, 0);
    expect_done(&told, TARRY_OK);
    begins(&told);
    assert_null(expect_send(&told, 0, TARRY_MESSAGE_ROUND)->stood);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_hear_that_their_parts_stand),
        cmocka_unit_test(who_died_hears_what_stands_of_its_life_before),
        cmocka_unit_test(of_a_round_that_failed_nothing_stands),
        cmocka_unit_test(other_forms_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
