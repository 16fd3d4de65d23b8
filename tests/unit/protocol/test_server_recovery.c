/* SPDX-License-Identifier: Apache-2.0 */
/* A worker is lost, or leaves politely, in each phase of a round: what follows from it follows in
 * the same step. No time passes in these stories after it is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tale.h"

/* Worker 1 rests, and takes over what worker 0 was at. */
static void lost_while_computing(void **state)
{
    (void)state;
    tale it;
    all_hold_all(&it, 3, 3, 1);
    tale_begin(&it);
    expect_anything(&it);
    at(&it.told, 10);
    finishes(&it, 1, 1, 3);
    expect_nothing(&it.told);
    is_lost(&it.told, 0);
    expect_send(&it.told, 1, TARRY_MESSAGE_NEWS);
    assert_int_equal(at_which(&it, 1), 2); /* chunk 0 */
    is_at(&it, 1, 2);
    finishes(&it, 1, 2, 3);
    expect_anything(&it); /* it may be asked to help worker 2 */
    finishes(&it, 2, 0, 3);
    expect_signals(&it);
    tale_end(&it);
}

/* Nobody else holds what it held: the round fails at once. */
static void the_only_holder_is_lost(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 1);
    story_begin(&told);
    is_lost(&told, 1);
    expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_ERROR_COVERAGE);
    story_end(&told);
}

/* Three workers, two copies of each chunk, two stripes; all have finished their first chunk. */
static void three_are_signalled(story *told)
{
    story_plan(told, 3, 2);
    told->settings.stripe_length = 5;
    story_begin(told);
    at(told, 5);
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(told, worker, 0);
    told->expected = told->effects->count;
}

static void ends_with(story *told, uint32_t attempt, uint32_t stripe)
{
    for (; stripe < 2; stripe++) {
        delivers(told, 0, attempt, stripe);
        delivers(told, 1, attempt, stripe);
    }
    assert_true(expect_done(told, TARRY_OK)->exact);
    story_end(told);
}

/* The copies of the others are enough: they are signalled again. */
static void lost_between_the_signal_and_its_first_byte(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    reports(&told, 1, 1);
    is_lost(&told, 2);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    expect_signal(&told, 0, 2, "1001", "11");
    expect_signal(&told, 1, 2, "0110", "11");
    ends_with(&told, 2, 0);
}

/* They are not: the others go on computing, what is missing first. */
static void lost_with_copies_that_nobody_else_has(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    is_lost(&told, 2);
    expect_resume(&told, 0, "00");
    expect_resume(&told, 1, "01"); /* chunk 2 */
    reports(&told, 1, 1);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    expect_signal(&told, 0, 2, "1001", "11");
    expect_signal(&told, 1, 2, "0110", "11");
    ends_with(&told, 2, 0);
}

/* The first stripe is complete, and stands. */
static void lost_in_the_middle_of_its_part(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    reports(&told, 1, 1);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    is_lost(&told, 2);
    expect_clear(&told, 1);
    expect_signal(&told, 0, 2, "1001", "01");
    expect_signal(&told, 1, 2, "0110", "01");
    ends_with(&told, 2, 1);
}

/* What it has sent counts, also what is still to be summed. */
static void lost_after_its_last_byte(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    delivers(&told, 2, 1, 0);
    sends_part(&told, 2, 1, 1);
    expect_combine(&told, 2, 1, 1);
    is_lost(&told, 2);
    expect_nothing(&told);
    is_combined(&told, 2, 1, 1);
    ends_with(&told, 1, 0);
}

/* A worker that leaves hands back all that it has not finished. The others take it over at once,
 * and what it did finish counts. */
static void one_that_leaves_politely_is_not_waited_for(void **state)
{
    (void)state;
    tale it;
    two_share_four(&it);
    at(&it.told, 10);
    finishes(&it, 0, 0, 2);
    expect_anything(&it);
    finishes(&it, 1, 0, 2);
    expect_anything(&it);
    for (uint32_t slot = 2; slot < 4; slot++) {
        fails_at(&it, 0, slot, slot == 2 ? 3 : 1);
        expect_anything(&it);
    }
    fails_at(&it, 0, 1, 4);
    expect_anything(&it);
    finishes(&it, 1, 2, 1);
    expect_anything(&it);
    finishes(&it, 1, 1, 4);
    expect_clear(&it.told, 0);
    assert_true(bitset_test(expect_send(&it.told, 0, TARRY_MESSAGE_SIGNAL)->psi, 0));
    expect_send(&it.told, 1, TARRY_MESSAGE_SIGNAL);
    delivers(&it.told, 0, 1, 0);
    delivers(&it.told, 1, 1, 0);
    assert_true(expect_done(&it.told, TARRY_OK)->exact);
    tale_end(&it);
}

/* The same while worker 1 rests: it is told in the step in which the chunk is handed back. */
static void what_is_handed_back_goes_to_who_rests(void **state)
{
    (void)state;
    tale it;
    all_hold_all(&it, 3, 3, 1);
    tale_begin(&it);
    expect_anything(&it);
    at(&it.told, 10);
    finishes(&it, 1, 1, 3);
    expect_nothing(&it.told);
    fails_at(&it, 0, 0, 3);
    expect_send(&it.told, 1, TARRY_MESSAGE_NEWS);
    assert_int_equal(at_which(&it, 1), 2);
    tale_end(&it);
}

/* With the plan's order, and in the middle of an attempt: it breaks nothing. */
static void chunks_handed_back_after_the_signal_break_nothing(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    fails(&told, 2, 1);
    expect_nothing(&told);
    delivers(&told, 2, 1, 0);
    delivers(&told, 2, 1, 1);
    ends_with(&told, 1, 0);
}

/* A rule that takes whatever there is does not wait for one that has nothing more to give. */
static void the_last_to_hand_back_ends_the_computing(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 1);
    told.settings.stop = TARRY_STOP_ERROR;
    story_begin(&told);
    reports(&told, 0, 0);
    fails(&told, 1, 0);
    expect_clear(&told, 0);
    expect_send(&told, 0, TARRY_MESSAGE_SIGNAL);
    expect_send(&told, 1, TARRY_MESSAGE_SIGNAL);
    delivers(&told, 0, 1, 0);
    assert_false(expect_done(&told, TARRY_OK)->exact);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_while_computing),
        cmocka_unit_test(the_only_holder_is_lost),
        cmocka_unit_test(lost_between_the_signal_and_its_first_byte),
        cmocka_unit_test(lost_with_copies_that_nobody_else_has),
        cmocka_unit_test(lost_in_the_middle_of_its_part),
        cmocka_unit_test(lost_after_its_last_byte),
        cmocka_unit_test(one_that_leaves_politely_is_not_waited_for),
        cmocka_unit_test(what_is_handed_back_goes_to_who_rests),
        cmocka_unit_test(chunks_handed_back_after_the_signal_break_nothing),
        cmocka_unit_test(the_last_to_hand_back_ends_the_computing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
