/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts that are late, as stories with times. */
#include <math.h>

#include "edge_plan.h"
#include "protocol/server/server_state.h"
#include "story.h"
#include "test.h"

/* Four workers with two copies of each chunk, all finished at 0 ms; all but worker 3 deliver at
 * 10 ms, so that its part is late 200 ms after the signal, the least patience. */
static void three_of_four_deliver(story *told)
{
    each_reports(told, 3, 0);
    reports(told, 3, 0);
    expect_signals(told);
    each_reports(told, 3, 1);
    at(told, 10);
    delivers(told, 0, 1, 0);
    expect_deadline(told, 100);
    delivers(told, 1, 1, 0);
    delivers(told, 2, 1, 0);
    passes(told, 100);
    expect_deadline(told, 200);
    passes(told, 199);
}

STORY(a_late_worker_is_passed_over_where_that_costs_nothing)
{
    story_play(told, 4, 2);
    three_of_four_deliver(told);
    passes(told, 200);
    const tarry_effect *late = expect_left_out(told, 3, TARRY_ABSENT_LATE);
    assert_int_equal(late->waited_ns, 200 * STORY_MS);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
    expect_clear(told, 0);
    expect_signal(told, 0, 2, "1011", "1"); /* chunk 0 without worker 3 */
    expect_signal(told, 1, 2, "1111", "1");
    expect_signal(told, 2, 2, "1110", "1"); /* chunk 3 without worker 3 */
    expect_signal(told, 3, 2, "1010", "1"); /* nothing of its own: it stops encoding */
    /* It is there, but its part of attempt 1 must not be summed, nor one of attempt 2. */
    at(told, 205);
    sends_part(told, 3, 1, 0);
    expect_reject(told, 3, TARRY_REJECT_STALE);
    sends_part(told, 3, 2, 0);
    expect_reject(told, 3, TARRY_REJECT_MISPLACED);
    each_delivers(told, 3, 2, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->attempts, 2);
    assert_int_equal(result->workers_lost, 0);
    assert_int_equal(result->workers_late, 1);
    /* The next round counts on it again. */
    starts(told);
}

STORY(a_late_worker_is_called_back_before_the_round_is_given_up)
{
    story_play(told, 4, 2);
    three_of_four_deliver(told);
    passes(told, 200);
    expect_left_out(told, 3, TARRY_ABSENT_LATE);
    expect_signals(told);
    /* Chunk 0 is worker 3's otherwise, which has come back to itself meanwhile. */
    at(told, 205);
    is_alive(told, 3);
    is_lost(told, 0);
    assert_int_equal(expect_send(told, 3, TARRY_MESSAGE_ROUND)->epoch, 2);
    for (uint32_t worker = 1; worker < 4; worker++)
        expect_send(told, worker, TARRY_MESSAGE_RESUME);
    told->epoch = 2;
    reports(told, 3, 0);
    reports(told, 3, 1);
    told->expected = told->effects->count;
    delivers(told, 3, 3, 0);
    told->epoch = 1;
    delivers(told, 1, 3, 0);
    delivers(told, 2, 3, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->workers_lost, 1);
    assert_int_equal(result->workers_late, 1);
}

/* The part that is due has come in while the server was busy: it stands behind another message. */
STORY(a_server_that_was_held_up_hears_before_it_passes_anyone_over)
{
    story_play(told, 4, 2);
    three_of_four_deliver(told);
    at(told, 5000);
    is_alive(told, 0);
    delivers(told, 3, 1, 0);
    assert_int_equal(expect_done(told, TARRY_OK)->attempts, 1);
}

STORY(a_late_worker_is_waited_for_if_the_sum_would_be_worse)
{
    story_play(told, 4, 1);
    each_reports(told, 4, 0);
    expect_signals(told);
    at(told, 10);
    each_delivers(told, 3, 1, 0);
    passes(told, 90);
    passes(told, 190);
    is_alive(told, 3);
    at(told, 200);
    is_alive(told, 3);
    /* As long again, and then twice as long again. */
    for (uint64_t ms = 250; ms < 400; ms += 50) {
        at(told, ms);
        each_is_alive(told, 4);
    }
    expect_deadline(told, 400);
    at(told, 401);
    delivers(told, 3, 1, 0);
    assert_int_equal(expect_done(told, TARRY_OK)->attempts, 1);
}

STORY(nobody_is_late_while_most_are_not_done)
{
    story_play(told, 4, 2);
    each_reports(told, 4, 0);
    told->expected = told->effects->count;
    at(told, 10);
    delivers(told, 0, 1, 0);
    for (uint64_t ms = 50; ms < 5000; ms += 50) {
        at(told, ms);
        each_is_alive(told, 4);
    }
}

/* Parts that took no time leave none for the others; yet time has to pass before somebody is late.
 */
STORY(the_next_look_is_never_in_the_past)
{
    story_plan(told, 4, 2);
    told->settings.silence_ns = 2;
    story_begin(told);
    told->expected = told->effects->count; /* everyone is asked at once */
    each_reports(told, 4, 0);
    told->expected = told->effects->count;
    each_delivers(told, 2, 1, 0);
    assert_true(tarry_server_deadline(told->server) > told->now);
}

/* The rule asks for all four workers: leaving one out would break it. */
STORY(a_late_worker_that_the_stop_rule_needs_is_waited_for)
{
    story_plan(told, 4, 2);
    told->settings.stop = TARRY_STOP_WORKERS;
    told->settings.workers_needed = 4;
    story_begin(told);
    for (uint32_t slot = 0; slot < 2; slot++)
        each_reports(told, 4, slot);
    told->expected = told->effects->count;
    at(told, 10);
    each_delivers(told, 3, 1, 0);
    passes(told, 100);
    passes(told, 200);
    expect_nothing(told);
    delivers(told, 3, 1, 0);
    assert_int_equal(expect_done(told, TARRY_OK)->attempts, 1);
}

static void all_are_there(story *told, uint64_t ms)
{
    at(told, ms);
    each_is_alive(told, 4);
}

/* Four workers with two copies of each chunk; the signal is at 100 ms, with one copy of each, and
 * all but worker 3 deliver at 110 ms: its part is late at 300 ms. */
static void a_needed_part_does_not_come(story *told)
{
    all_are_there(told, 90);
    at(told, 100);
    each_reports(told, 4, 0);
    expect_signals(told);
    at(told, 110);
    each_delivers(told, 3, 1, 0);
    all_are_there(told, 200);
    all_are_there(told, 300);
    expect_nothing(told);
}

/* Once waiting for it beyond the limit has cost the 100 ms that it took to compute everything. */
STORY(others_make_up_for_a_late_worker_that_is_needed)
{
    story_play(told, 4, 2);
    a_needed_part_does_not_come(told);
    all_are_there(told, 399);
    expect_nothing(told);
    passes(told, 400);
    const tarry_effect *late = expect_left_out(told, 3, TARRY_ABSENT_LATE);
    assert_int_equal(late->waited_ns, 300 * STORY_MS);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
    expect_resume(told, 0, "00");
    expect_resume(told, 1, "00");
    expect_resume(told, 2, "01"); /* chunk 3 */
    at(told, 405);
    sends_part(told, 3, 1, 0);
    expect_reject(told, 3, TARRY_REJECT_STALE);
    reports(told, 2, 1);
    expect_clear(told, 0);
    expect_signal(told, 0, 2, "1001", "1");
    expect_signal(told, 1, 2, "0101", "1");
    expect_signal(told, 2, 2, "0110", "1"); /* chunk 3 is its now, of the holders 2 and 3 */
    expect_signal(told, 3, 2, "1010", "1"); /* nothing of its own */
    each_delivers(told, 3, 2, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->attempts, 2);
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
STORY(only_those_who_were_heard_of_are_counted_on)
{
    story_plan(told, 4, 2);
    told->settings.silence_ns = 2000 * STORY_MS;
    story_begin(told);
    at(told, 100);
    each_reports(told, 2, 0);
    reports(told, 1, 1);
    reports(told, 3, 0);
    told->expected = told->effects->count;
    at(told, 110);
    each_delivers(told, 2, 1, 0);
    assert_false(leaves_someone_out(told, 150, 1000, 2));
    assert_true(leaves_someone_out(told, 1050, 2500, UINT32_MAX));
}

/* It may come just before that. */
STORY(a_late_worker_that_is_needed_may_still_come)
{
    story_play(told, 4, 2);
    a_needed_part_does_not_come(told);
    all_are_there(told, 399);
    delivers(told, 3, 1, 0);
    assert_int_equal(expect_done(told, TARRY_OK)->attempts, 1);
}

/* The other copy of chunk 3 can't be computed: worker 3 is waited for, whatever it takes. */
STORY(a_late_worker_that_nobody_can_make_up_for_is_waited_for)
{
    story_play(told, 4, 2);
    fails(told, 2, 1);
    a_needed_part_does_not_come(told);
    for (uint64_t ms = 350; ms < 5000; ms += 50) {
        all_are_there(told, ms);
        expect_nothing(told);
    }
    delivers(told, 3, 1, 0);
    expect_exact(told);
}

/*
 * Nothing more could come when the signal went out; then worker 2 came back. Without the late
 * worker 1 the sum would be as good, but the rule does not hold while worker 2 computes: the round
 * would go on to its deadline, instead of ending with one more part.
 */
STORY(a_late_worker_is_not_passed_over_to_go_on_computing)
{
    story_plan(told, 3, 2);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 10000 * STORY_MS;
    story_begin(told);
    is_lost(told, 2);
    fails(told, 0, 0);
    reports(told, 0, 1);
    reports(told, 1, 0);
    fails(told, 1, 1);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "0011", "1"); /* chunk 1 is at both */
    expect_signal(told, 1, 1, "1100", "1");
    joins(told, 2);
    expect_send(told, 2, TARRY_MESSAGE_ROUND);
    at(told, 10);
    delivers(told, 0, 1, 0);
    passes(told, 100);
    passes(told, 200);
    expect_nothing(told);
    delivers(told, 1, 1, 0);
    expect_send(told, 2, TARRY_MESSAGE_FINISH);
    assert_false(expect_done(told, TARRY_OK)->exact);
}

/* Combining may take its time; the server must not ask to be called at a time that has passed. */
STORY(the_deadline_is_ahead_while_parts_are_combined)
{
    story_play(told, 2, 2);
    each_reports(told, 2, 0);
    told->expected = told->effects->count;
    at(told, 10);
    sends_part(told, 0, 1, 0);
    expect_combine(told, 0, 1, 0);
    sends_part(told, 1, 1, 0);
    expect_combine(told, 1, 1, 0);
    for (int look = 0; look < 20; look++) {
        uint64_t deadline = tarry_server_deadline(told->server);
        assert_true(deadline > told->now);
        told->now = deadline;
        each_is_alive(told, 2);
    }
    is_combined(told, 0, 1, 0);
    is_combined(told, 1, 1, 0);
    expect_done(told, TARRY_OK);
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
    expect_each(told, 4, TARRY_MESSAGE_SIGNAL);
}

/* All but worker 3 deliver a stripe every `each` ms from now on. */
static void three_deliver_ten(story *told, uint64_t each)
{
    uint64_t start = told->now / STORY_MS;
    for (uint32_t stripe = 0; stripe < 10; stripe++) {
        at(told, start + (stripe + 1) * each);
        each_delivers(told, 3, 1, stripe);
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
STORY(a_slow_link_is_left_out_as_soon_as_it_shows)
{
    begin_with_ten_stripes(told);
    for (uint32_t slot = 0; slot < 2; slot++) {
        for (uint32_t worker = 0; worker < 4; worker++) {
            reports(told, worker, slot);
            if (slot == 0 && worker == 3)
                are_signalled(told);
        }
    }
    three_deliver_ten(told, 1);
    all_wait(told, 50);
    expect_nothing(told);
    delivers(told, 3, 1, 0);
    all_wait(told, 200);
    const tarry_effect *late = expect_left_out(told, 3, TARRY_ABSENT_LATE);
    assert_true(told->now < 70 * STORY_MS);
    assert_int_equal(late->waited_ns, told->now);
    assert_int_equal(late->limit_ns, 200 * STORY_MS);
    for (uint32_t stripe = 1; stripe < 10; stripe++)
        expect_clear(told, stripe);
    expect_signal(told, 0, 2, "1011", "0111111111");
    expect_signal(told, 1, 2, "1111", "0111111111");
    expect_signal(told, 2, 2, "1110", "0111111111");
    expect_signal(told, 3, 2, "1010", "0111111111"); /* nothing of its own */
}

/* The same, but nobody has a second copy yet: the others compute what is missing at once. */
STORY(others_make_up_for_a_slow_link_as_soon_as_it_shows)
{
    begin_with_ten_stripes(told);
    all_are_there(told, 90);
    at(told, 100);
    each_reports(told, 4, 0);
    are_signalled(told);
    three_deliver_ten(told, 1);
    all_wait(told, 150);
    expect_nothing(told);
    delivers(told, 3, 1, 0);
    all_wait(told, 300);
    /* 441 ms of sending, against 100 ms of computing and 10 of sending. */
    assert_true(told->now < 170 * STORY_MS);
    expect_left_out(told, 3, TARRY_ABSENT_LATE);
    expect_resume(told, 0, "00");
    expect_resume(told, 1, "00");
    expect_resume(told, 2, "01"); /* chunk 3 */
}

/* Stripes are there 100 ms after the signal, and then one each ms, but one each 30 ms of worker 3,
 * which has two of ten left when it is late, after 340 ms. */
static void one_of_four_is_slow(story *told)
{
    begin_with_ten_stripes(told);
    each_reports(told, 4, 0);
    are_signalled(told);
    each_reports(told, 4, 1);
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
STORY(a_slow_link_is_waited_for_if_that_is_sooner)
{
    one_of_four_is_slow(told);
    all_wait(told, 349);
    expect_nothing(told);
    delivers(told, 3, 1, 8);
    all_wait(told, 379);
    expect_nothing(told);
    delivers(told, 3, 1, 9);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_late, 0);
}

/* What was foreseen does not come true: two stripes can be repeated in 102 ms. */
STORY(a_link_that_stalls_is_not_waited_for_any_longer)
{
    one_of_four_is_slow(told);
    all_wait(told, 1000);
    expect_left_out(told, 3, TARRY_ABSENT_LATE);
    assert_in_range(told->now, 400 * STORY_MS, 530 * STORY_MS);
    for (uint32_t stripe = 8; stripe < 10; stripe++)
        expect_clear(told, stripe);
    expect_each(told, 4, TARRY_MESSAGE_SIGNAL);
}

/* Two are late; one of them is about to finish, and goes on in the new attempt. */
STORY(only_the_slower_of_two_is_left_out)
{
    begin_with_ten_stripes(told);
    each_reports(told, 4, 0);
    are_signalled(told);
    each_reports(told, 4, 1);
    for (uint32_t stripe = 0; stripe < 10; stripe++) {
        at(told, 1 + stripe);
        each_delivers(told, 2, 1, stripe);
        if (stripe < 9)
            delivers(told, 2, 1, stripe);
    }
    delivers(told, 3, 1, 0);
    all_wait(told, 20);
    assert_true(told->now < 20 * STORY_MS);
    expect_left_out(told, 3, TARRY_ABSENT_LATE);
    for (uint32_t stripe = 1; stripe < 10; stripe++)
        expect_clear(told, stripe);
    expect_each(told, 4, TARRY_MESSAGE_SIGNAL);
    assert_true(told->server->members[2].participant && !told->server->members[3].participant);
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
    is.recovered = coverage_recovered(server->credited);
    for (uint32_t i = 0; i < 4; i++) {
        is.possible[i] = server->possible[i];
        is.ranks[i] = coverage_rank(server->credited, i);
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
STORY(a_look_that_fails_leaves_the_round_as_it_was)
{
    story_plan(told, 4, 3);
    told->plan->parts = 2;
    edge_plan_random_decode(told->plan, 1);
    told->settings.dimension = 20;
    story_begin(told);
    for (uint32_t slot = 0; slot < 2; slot++)
        each_reports(told, 4, slot);
    expect_signals(told);
    at(told, 10);
    for (uint32_t worker = 0; worker < 3; worker++) {
        reports(told, worker, 2);
        delivers(told, worker, 1, 0);
    }
    at(told, 200);
    const size_t numbers = 2 * told->plan->workers;
    double columns[8];
    memcpy(columns, told->plan->decode, sizeof(columns));
    const knowledge before = what_is_known(told->server);
    for (size_t i = 0; i < numbers; i++)
        told->plan->decode[i] = NAN;
    const tarry_effects *effects;
    assert_int_equal(tarry_server_step(told->server, told->now,
                                       &(tarry_event){.type = TARRY_EVENT_TIME}, &effects),
                     TARRY_ERROR_NUMERICAL);
    const knowledge after = what_is_known(told->server);
    assert_memory_equal(&before, &after, sizeof(before));

    memcpy(told->plan->decode, columns, sizeof(columns));
    told->effects = NULL; /* of the step that failed */
    at(told, 201);        /* the part that was late is still taken */
    delivers(told, 3, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->attempts, 1);
    assert_int_equal(result->workers_late, 0);
}
