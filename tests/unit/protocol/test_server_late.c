/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts that are late, as stories with times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "edge_plan.h"
#include "protocol/server/server_state.h"
#include "story.h"

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
    const tarry_effect *late = expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    assert_int_equal(late->waited_ns, 200 * STORY_MS);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
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
    assert_int_equal(result->workers_late, 1);
    /* The next round counts on it again. */
    starts(&told);
    story_end(&told);
}

static void a_late_worker_is_called_back_before_the_round_is_given_up(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    story_begin(&told);
    three_of_four_deliver(&told);
    passes(&told, 200);
    expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    /* Chunk 0 is worker 3's otherwise, which has come back to itself meanwhile. */
    at(&told, 205);
    is_alive(&told, 3);
    is_lost(&told, 0);
    assert_int_equal(expect_send(&told, 3, TARRY_MESSAGE_ROUND)->epoch, 2);
    for (uint32_t worker = 1; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_RESUME);
    told.epoch = 2;
    reports(&told, 3, 0);
    reports(&told, 3, 1);
    told.expected = told.effects->count;
    delivers(&told, 3, 3, 0);
    told.epoch = 1;
    delivers(&told, 1, 3, 0);
    delivers(&told, 2, 3, 0);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(result->exact);
    assert_int_equal(result->workers_lost, 1);
    assert_int_equal(result->workers_late, 1);
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

/* Parts that took no time leave none for the others; yet time has to pass before somebody is late.
 */
static void the_next_look_is_never_in_the_past(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    told.settings.silence_ns = 2;
    story_begin(&told);
    told.expected = told.effects->count; /* everyone is asked at once */
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 0);
    told.expected = told.effects->count;
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    assert_true(tarry_server_deadline(told.server) > told.now);
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
    const tarry_effect *late = expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    assert_int_equal(late->waited_ns, 300 * STORY_MS);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
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

/* At each of these times all but `silent` are there. Gives back whether somebody is left out. */
static bool leaves_someone_out(story *told, uint64_t from_ms, uint64_t to_ms, uint32_t silent)
{
    bool tells = false;
    for (uint64_t ms = from_ms; ms <= to_ms && !tells; ms += 50) {
        at(told, ms);
        for (uint32_t worker = 0; worker < 4 && !tells; worker++) {
            if (worker == silent)
                continue;
            is_alive(told, worker);
            for (size_t i = 0; i < told->effects->count; i++)
                tells = tells || told->effects->items[i].type == TARRY_EFFECT_LEFT_OUT;
            told->expected = told->effects->count; /* probes */
        }
    }
    return tells;
}

/* Of worker 2, which alone could make up for worker 3, nothing has come in this round: it is not
 * counted on before something does. */
static void only_those_who_were_heard_of_are_counted_on(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 2);
    told.settings.silence_ns = 2000 * STORY_MS;
    story_begin(&told);
    at(&told, 100);
    reports(&told, 0, 0);
    reports(&told, 1, 0);
    reports(&told, 1, 1);
    reports(&told, 3, 0);
    told.expected = told.effects->count;
    at(&told, 110);
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    assert_false(leaves_someone_out(&told, 150, 1000, 2));
    assert_true(leaves_someone_out(&told, 1050, 2500, UINT32_MAX));
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

/* Ten stripes of one number. */
static void begin_with_ten_stripes(story *told)
{
    story_plan(told, 4, 2);
    told->settings.stripe_length = 1;
    story_begin(told);
}

static void are_signalled(story *told)
{
    for (uint32_t stripe = 0; stripe < 10; stripe++)
        expect_clear(told, stripe);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
}

/* All but worker 3 deliver a stripe every `each` ms from now on. */
static void three_deliver_ten(story *told, uint64_t each)
{
    uint64_t start = told->now / STORY_MS;
    for (uint32_t stripe = 0; stripe < 10; stripe++) {
        at(told, start + (stripe + 1) * each);
        for (uint32_t worker = 0; worker < 3; worker++)
            delivers(told, worker, 1, stripe);
    }
}

/* Everyone is there, and nobody sends anything, until the server acts or until `ms`. */
static void all_wait(story *told, uint64_t ms)
{
    while (told->effects->count == told->expected) {
        uint64_t deadline = tarry_server_deadline(told->server);
        if (deadline > ms * STORY_MS)
            break;
        told->now = deadline;
        for (uint32_t worker = 0; worker < 4 && told->effects->count == told->expected; worker++)
            is_alive(told, worker);
        if (told->effects->count == 0)
            time_passes(told);
    }
    if (told->effects->count == told->expected)
        at(told, ms);
}

/* The others are done after 10 ms. Worker 3 has sent one of ten stripes after 50 ms: nine more
 * would take 441 ms, and another attempt 10. */
static void a_slow_link_is_left_out_as_soon_as_it_shows(void **state)
{
    (void)state;
    story told;
    begin_with_ten_stripes(&told);
    for (uint32_t slot = 0; slot < 2; slot++) {
        for (uint32_t worker = 0; worker < 4; worker++) {
            reports(&told, worker, slot);
            if (slot == 0 && worker == 3)
                are_signalled(&told);
        }
    }
    three_deliver_ten(&told, 1);
    all_wait(&told, 50);
    expect_nothing(&told);
    delivers(&told, 3, 1, 0);
    all_wait(&told, 200);
    const tarry_effect *late = expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    assert_true(told.now < 70 * STORY_MS);
    assert_int_equal(late->waited_ns, told.now);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
    for (uint32_t stripe = 1; stripe < 10; stripe++)
        expect_clear(&told, stripe);
    expect_signal(&told, 0, 2, "1011", "0111111111");
    expect_signal(&told, 1, 2, "1111", "0111111111");
    expect_signal(&told, 2, 2, "1110", "0111111111");
    expect_signal(&told, 3, 2, "1010", "0111111111"); /* nothing of its own */
    story_end(&told);
}

/* The same, but nobody has a second copy yet: the others compute what is missing at once. */
static void others_make_up_for_a_slow_link_as_soon_as_it_shows(void **state)
{
    (void)state;
    story told;
    begin_with_ten_stripes(&told);
    all_are_there(&told, 90);
    at(&told, 100);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 0);
    are_signalled(&told);
    three_deliver_ten(&told, 1);
    all_wait(&told, 150);
    expect_nothing(&told);
    delivers(&told, 3, 1, 0);
    all_wait(&told, 300);
    /* 441 ms of sending, against 100 ms of computing and 10 of sending. */
    assert_true(told.now < 170 * STORY_MS);
    expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    expect_resume(&told, 0, "00");
    expect_resume(&told, 1, "00");
    expect_resume(&told, 2, "01"); /* chunk 3 */
    story_end(&told);
}

/* Stripes are there 100 ms after the signal, and then one each ms, but one each 30 ms of worker 3,
 * which has two of ten left when it is late, after 340 ms. */
static void one_of_four_is_slow(story *told)
{
    begin_with_ten_stripes(told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(told, worker, 0);
    are_signalled(told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(told, worker, 1);
    at(told, 99);
    three_deliver_ten(told, 1);
    delivers(told, 3, 1, 0);
    for (uint32_t stripe = 1; stripe < 8; stripe++) {
        all_wait(told, 109 + 30 * stripe);
        delivers(told, 3, 1, stripe);
    }
    assert_in_range(server_late_limit_ns(told->server), 330 * STORY_MS, 348 * STORY_MS);
}

/* Two stripes of it will take less than the 102 ms until they would be there in a new attempt. */
static void a_slow_link_is_waited_for_if_that_is_sooner(void **state)
{
    (void)state;
    story told;
    one_of_four_is_slow(&told);
    all_wait(&told, 349);
    expect_nothing(&told);
    delivers(&told, 3, 1, 8);
    all_wait(&told, 379);
    expect_nothing(&told);
    delivers(&told, 3, 1, 9);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_late, 0);
    story_end(&told);
}

/* What was foreseen does not come true: two stripes can be repeated in 102 ms. */
static void a_link_that_stalls_is_not_waited_for_any_longer(void **state)
{
    (void)state;
    story told;
    one_of_four_is_slow(&told);
    all_wait(&told, 1000);
    expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    assert_in_range(told.now, 400 * STORY_MS, 530 * STORY_MS);
    for (uint32_t stripe = 8; stripe < 10; stripe++)
        expect_clear(&told, stripe);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    story_end(&told);
}

/* Two are late; one of them is about to finish, and goes on in the new attempt. */
static void only_the_slower_of_two_is_left_out(void **state)
{
    (void)state;
    story told;
    begin_with_ten_stripes(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 0);
    are_signalled(&told);
    for (uint32_t worker = 0; worker < 4; worker++)
        reports(&told, worker, 1);
    for (uint32_t stripe = 0; stripe < 10; stripe++) {
        at(&told, 1 + stripe);
        delivers(&told, 0, 1, stripe);
        delivers(&told, 1, 1, stripe);
        if (stripe < 9)
            delivers(&told, 2, 1, stripe);
    }
    delivers(&told, 3, 1, 0);
    all_wait(&told, 20);
    assert_true(told.now < 20 * STORY_MS);
    expect_left_out(&told, 3, TARRY_ABSENT_LATE);
    for (uint32_t stripe = 1; stripe < 10; stripe++)
        expect_clear(&told, stripe);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    assert_true(told.server->members[2].participant && !told.server->members[3].participant);
    story_end(&told);
}

/* What the server knows of the round, but for when it looks again. */
typedef struct knowledge {
    uint64_t credits, possible[4];
    uint32_t ranks[4], recovered;
    server_member members[4];
    uint32_t able, busy, whole, participants;
} knowledge;

static knowledge what_is_known(const tarry_server *server)
{
    knowledge is;
    memset(&is, 0, sizeof(is));
    is.credits = server->credited->credits[0];
    is.recovered = coverage_recovered(server->credited, 2);
    for (uint32_t i = 0; i < 4; i++) {
        is.possible[i] = server->possible[i];
        is.ranks[i] = coverage_rank(server->credited, 2, i);
        memcpy(&is.members[i], &server->members[i], sizeof(is.members[i]));
        is.members[i].overdue = false;
        is.members[i].probe_ns = 0; /* it is asked whether it is there */
    }
    is.able = server->able;
    is.busy = server->busy;
    is.whole = server->whole;
    is.participants = server->participants;
    return is;
}

/* Two parts, three copies of each chunk, all of them there; worker 3 is late. Without it ranks are
 * to be worked out anew, of numbers that are none: the look fails. */
static void a_look_that_fails_leaves_the_round_as_it_was(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 4, 3);
    told.plan->parts = 2;
    edge_plan_random_decode(told.plan, 1);
    told.settings.dimension = 20;
    story_begin(&told);
    for (uint32_t slot = 0; slot < 2; slot++)
        for (uint32_t worker = 0; worker < 4; worker++)
            reports(&told, worker, slot);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
    at(&told, 10);
    for (uint32_t worker = 0; worker < 3; worker++) {
        reports(&told, worker, 2);
        delivers(&told, worker, 1, 0);
    }
    at(&told, 200);
    const size_t numbers = 2 * told.plan->workers;
    double columns[8];
    memcpy(columns, told.plan->decode, sizeof(columns));
    const knowledge before = what_is_known(told.server);
    for (size_t i = 0; i < numbers; i++)
        told.plan->decode[i] = NAN;
    const tarry_effects *effects;
    assert_int_equal(tarry_server_step(told.server, told.now,
                                       &(tarry_event){.type = TARRY_EVENT_TIME}, &effects),
                     TARRY_ERROR_NUMERICAL);
    const knowledge after = what_is_known(told.server);
    assert_memory_equal(&before, &after, sizeof(before));

    memcpy(told.plan->decode, columns, sizeof(columns));
    told.effects = NULL; /* of the step that failed */
    at(&told, 201);      /* the part that was late is still taken */
    delivers(&told, 3, 1, 0);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_late, 0);
    story_end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_worker_is_passed_over_where_that_costs_nothing),
        cmocka_unit_test(a_late_worker_is_called_back_before_the_round_is_given_up),
        cmocka_unit_test(a_server_that_was_held_up_hears_before_it_passes_anyone_over),
        cmocka_unit_test(a_late_worker_is_waited_for_if_the_sum_would_be_worse),
        cmocka_unit_test(nobody_is_late_while_most_are_not_done),
        cmocka_unit_test(the_next_look_is_never_in_the_past),
        cmocka_unit_test(a_late_worker_that_the_stop_rule_needs_is_waited_for),
        cmocka_unit_test(others_make_up_for_a_late_worker_that_is_needed),
        cmocka_unit_test(only_those_who_were_heard_of_are_counted_on),
        cmocka_unit_test(a_late_worker_that_is_needed_may_still_come),
        cmocka_unit_test(a_late_worker_that_nobody_can_make_up_for_is_waited_for),
        cmocka_unit_test(a_late_worker_is_not_passed_over_to_go_on_computing),
        cmocka_unit_test(the_deadline_is_ahead_while_parts_are_combined),
        cmocka_unit_test(a_slow_link_is_left_out_as_soon_as_it_shows),
        cmocka_unit_test(others_make_up_for_a_slow_link_as_soon_as_it_shows),
        cmocka_unit_test(a_slow_link_is_waited_for_if_that_is_sooner),
        cmocka_unit_test(a_link_that_stalls_is_not_waited_for_any_longer),
        cmocka_unit_test(only_the_slower_of_two_is_left_out),
        cmocka_unit_test(a_look_that_fails_leaves_the_round_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
