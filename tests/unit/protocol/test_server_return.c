/* SPDX-License-Identifier: Apache-2.0 */
/* A worker comes back over another connection with what it had finished: the others hear nothing,
 * and nothing of the round is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bitset.h"
#include "story.h"

static void returns(story *told, uint32_t worker)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_RETURNED, .worker = worker});
}

/* It is sent the round anew, with what it has to report again; nobody is sent anything else. */
static void expect_round(story *told, uint32_t worker, uint32_t epoch, const char *first)
{
    const tarry_message *round = expect_send(told, worker, TARRY_MESSAGE_ROUND);
    assert_int_equal(round->epoch, epoch);
    for (size_t slot = 0; first[slot] != '\0'; slot++)
        assert_int_equal(round->first != NULL && bitset_test(round->first, slot),
                         first[slot] == '1');
    expect_nothing(told);
}

static void reports_as(story *told, uint32_t worker, uint32_t epoch, uint32_t slot)
{
    told->epoch = epoch;
    reports(told, worker, slot);
    told->epoch = 1;
}

static void delivers_as(story *told, uint32_t worker, uint32_t epoch, uint32_t attempt,
                        uint32_t stripe)
{
    told->epoch = epoch;
    delivers(told, worker, attempt, stripe);
    told->epoch = 1;
}

/* Three workers, two copies of each chunk, two stripes; what each is told of psi once all have
 * finished their first chunk. */
static const char *const psi[] = {"1001", "0101", "0110"};

static void three_begin(story *told)
{
    story_plan(told, 3, 2);
    told->settings.stripe_length = 5;
    story_begin(told);
    at(told, 5);
}

static void what_it_had_finished_counts_on(void **state)
{
    (void)state;
    story told;
    three_begin(&told);
    reports(&told, 0, 0);
    returns(&told, 0);
    expect_round(&told, 0, 2, "10");
    reports(&told, 0, 1); /* over the connection before */
    expect_reject(&told, 0, TARRY_REJECT_STALE);
    reports_as(&told, 0, 2, 0);
    expect_nothing(&told);
    reports_as(&told, 0, 2, 0);
    expect_reject(&told, 0, TARRY_REJECT_DUPLICATE);
    reports(&told, 1, 0);
    reports(&told, 2, 0);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal(&told, worker, 1, psi[worker], "11");
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers_as(&told, 0, 2, 1, stripe);
        delivers(&told, 1, 1, stripe);
        delivers(&told, 2, 1, stripe);
    }
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_int_equal(result->copies_computed, 3);
    assert_true(result->exact);
    story_end(&told);
}

/* The stop rule holds with its copy; it can only send once it has said that it still has that. */
static void its_signal_waits_until_it_owes_nothing(void **state)
{
    (void)state;
    story told;
    three_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    returns(&told, 0);
    expect_round(&told, 0, 2, "10");
    reports(&told, 2, 0);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    expect_signal(&told, 1, 1, psi[1], "11");
    expect_signal(&told, 2, 1, psi[2], "11");
    delivers(&told, 1, 1, 0);
    reports_as(&told, 0, 2, 0);
    expect_signal(&told, 0, 1, psi[0], "11");
    delivers(&told, 2, 1, 0);
    delivers(&told, 1, 1, 1);
    delivers(&told, 2, 1, 1);
    delivers_as(&told, 0, 2, 1, 0);
    delivers_as(&told, 0, 2, 1, 1);
    assert_int_equal(expect_done(&told, TARRY_OK)->attempts, 1);
    story_end(&told);
}

static void three_are_signalled(story *told)
{
    three_begin(told);
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(told, worker, 0);
    told->expected = told->effects->count;
}

/* The attempt goes on: what has come in of its part stands, and it is asked for the rest. */
static void only_the_rest_of_its_part_is_sent_again(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    delivers(&told, 2, 1, 0);
    returns(&told, 2);
    expect_round(&told, 2, 2, "10");
    sends_part(&told, 2, 1, 1); /* was on its way over the connection before */
    expect_reject(&told, 2, TARRY_REJECT_STALE);
    delivers(&told, 0, 1, 0);
    delivers(&told, 0, 1, 1);
    reports_as(&told, 2, 2, 0);
    expect_signal(&told, 2, 1, psi[2], "01");
    delivers(&told, 1, 1, 0);
    delivers(&told, 1, 1, 1);
    delivers_as(&told, 2, 2, 1, 1);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->copies_computed, 3);
    story_end(&told);
}

static void who_has_sent_all_is_not_asked_again(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    delivers(&told, 2, 1, 0);
    delivers(&told, 2, 1, 1);
    returns(&told, 2);
    expect_round(&told, 2, 2, "10");
    reports_as(&told, 2, 2, 0);
    expect_nothing(&told);
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers(&told, 0, 1, stripe);
        delivers(&told, 1, 1, stripe);
    }
    expect_send(&told, 2, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_OK);
    story_end(&told);
}

/* 800 ms later: what it did not report again is open, and others compute it. */
static void who_does_not_say_what_it_has_has_nothing(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    returns(&told, 2);
    expect_round(&told, 2, 2, "10");
    for (uint64_t ms = 105; ms < 805; ms += 100) {
        passes(&told, ms);
        told.expected = told.effects->count; /* probes */
        told.epoch = 1;
        is_alive(&told, 0);
        is_alive(&told, 1);
        told.epoch = 2;
        is_alive(&told, 2);
    }
    told.epoch = 1;
    expect_deadline(&told, 805);
    passes(&told, 805);
    while (told.effects->items[told.expected].message.type == TARRY_MESSAGE_PROBE)
        told.expected++;
    expect_resume(&told, 0, "00");
    expect_resume(&told, 1, "01"); /* chunk 2 */
    expect_resume(&told, 2, "10"); /* the same */
    reports(&told, 1, 1);
    expect_clear(&told, 0);
    expect_clear(&told, 1);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    story_end(&told);
}

static void what_it_has_lost_is_computed_again(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    returns(&told, 2);
    expect_round(&told, 2, 2, "10");
    told.epoch = 2;
    fails(&told, 2, 0);
    told.epoch = 1;
    expect_resume(&told, 0, "00");
    expect_resume(&told, 1, "01");
    expect_resume(&told, 2, "00");
    story_end(&told);
}

/* A second time before it has said anything: it owes what it owed. */
static void returns_twice(void **state)
{
    (void)state;
    story told;
    three_begin(&told);
    reports(&told, 0, 0);
    reports(&told, 0, 1);
    returns(&told, 0);
    expect_round(&told, 0, 2, "11");
    reports_as(&told, 0, 2, 1);
    returns(&told, 0);
    expect_round(&told, 0, 3, "11");
    is_lost(&told, 0);
    expect_nothing(&told);
    joins(&told, 0);
    expect_round(&told, 0, 4, "00");
    story_end(&told);
}

static void who_is_not_there_joins(void **state)
{
    (void)state;
    story told;
    three_begin(&told);
    reports(&told, 0, 0);
    is_lost(&told, 0);
    returns(&told, 0);
    expect_round(&told, 0, 2, "00");
    happens(&told, &(tarry_event){.type = TARRY_EVENT_RETURNED, .worker = 3});
    expect_reject(&told, 3, TARRY_REJECT_UNKNOWN);
    story_end(&told);
}

/* A running sum has nothing that could be reported again: the copy that it was is recalled. */
static void a_running_sum_does_not_return(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 2, 2);
    told.settings.keep = TARRY_KEEP_CREDITED;
    story_begin(&told);
    reports(&told, 0, 0);
    expect_send(&told, 0, TARRY_MESSAGE_NEWS);
    reports(&told, 1, 1);
    expect_send(&told, 1, TARRY_MESSAGE_NEWS);
    returns(&told, 0);
    expect_send(&told, 0, TARRY_MESSAGE_ROUND);
    expect_send(&told, 1, TARRY_MESSAGE_NEWS);
    story_end(&told);
}

/* A relay dies with a hundred workers of two hundred, in the middle of a round with a dynamic
 * order. Whoever does not come back is told nothing, at any time of it. */
static void a_hundred_return_and_nobody_else_hears(void **state)
{
    (void)state;
    enum { ALL = 200, AWAY = 100, COPIES = 4 };
    for (tarry_pick pick = TARRY_PICK_PLAN; pick <= TARRY_PICK_SHARE; pick++) {
        story told;
        story_plan(&told, ALL, COPIES);
        told.settings.pick = pick;
        story_begin(&told);
        told.expected = told.effects->count;
        at(&told, 5);
        for (uint32_t worker = 0; worker < ALL; worker += 2) {
            tarry_message report = {
                .type = TARRY_MESSAGE_REPORT, .epoch = 1, .sequence = 1, .next = 1};
            says(&told, worker, &report);
            told.expected = told.effects->count;
        }
        at(&told, 6);
        for (uint32_t worker = 0; worker < AWAY; worker++) {
            returns(&told, worker);
            for (size_t i = 0; i < told.effects->count; i++)
                assert_int_equal(told.effects->items[i].worker, worker);
            told.expected = told.effects->count;
        }
        for (uint32_t worker = 0; worker < AWAY; worker += 2) {
            tarry_message report = {
                .type = TARRY_MESSAGE_REPORT, .epoch = 2, .sequence = 1, .next = 1};
            says(&told, worker, &report);
            for (size_t i = 0; i < told.effects->count; i++)
                assert_int_equal(told.effects->items[i].worker, worker);
            told.expected = told.effects->count;
        }
        story_end(&told);
    }
}

/* Parts that will not come, of workers that are there: the sum is made again of the same copies. */
static void a_stalled_sum_is_made_again(void **state)
{
    (void)state;
    story told;
    three_are_signalled(&told);
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 1, 0);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_STALLED});
    expect_clear(&told, 1);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal(&told, worker, 2, psi[worker], "01");
    for (uint32_t worker = 0; worker < 3; worker++)
        delivers(&told, worker, 2, 1);
    expect_done(&told, TARRY_OK);
    happens(&told, &(tarry_event){.type = TARRY_EVENT_STALLED});
    expect_reject(&told, 0, TARRY_REJECT_STALE);
    story_end(&told);
}

static void wants_what_would_count(void **state)
{
    (void)state;
    story told;
    three_begin(&told);
    tarry_message part = {.type = TARRY_MESSAGE_PART, .epoch = 1, .attempt = 1, .parts = 1};
    assert_false(tarry_server_wants(told.server, 0, &part));
    for (uint32_t worker = 0; worker < 3; worker++)
        reports(&told, worker, 0);
    told.expected = told.effects->count;
    assert_true(tarry_server_wants(told.server, 0, &part));
    assert_false(tarry_server_wants(told.server, 3, &part));
    tarry_message other = part;
    other.epoch = 2;
    assert_false(tarry_server_wants(told.server, 0, &other));
    other = part;
    other.attempt = 2;
    assert_false(tarry_server_wants(told.server, 0, &other));
    other = part;
    other.round = 1;
    assert_false(tarry_server_wants(told.server, 0, &other));
    other = part;
    other.parts = 2;
    assert_false(tarry_server_wants(told.server, 0, &other));
    other = part;
    other.stripe = 2;
    assert_false(tarry_server_wants(told.server, 0, &other));
    delivers(&told, 0, 1, 0);
    assert_false(tarry_server_wants(told.server, 0, &part));
    assert_true(tarry_server_wants(told.server, 1, &part));
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_had_finished_counts_on),
        cmocka_unit_test(its_signal_waits_until_it_owes_nothing),
        cmocka_unit_test(only_the_rest_of_its_part_is_sent_again),
        cmocka_unit_test(who_has_sent_all_is_not_asked_again),
        cmocka_unit_test(who_does_not_say_what_it_has_has_nothing),
        cmocka_unit_test(what_it_has_lost_is_computed_again),
        cmocka_unit_test(returns_twice),
        cmocka_unit_test(who_is_not_there_joins),
        cmocka_unit_test(a_running_sum_does_not_return),
        cmocka_unit_test(a_hundred_return_and_nobody_else_hears),
        cmocka_unit_test(a_stalled_sum_is_made_again),
        cmocka_unit_test(wants_what_would_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
