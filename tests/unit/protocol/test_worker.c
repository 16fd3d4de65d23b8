/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "plan/plan.h"
#include "protocol/worker/worker_state.h"
#include "test.h"
#include "worker_desk.h"

static void desk_begin_keeping(desk *its, bool keeps_stale)
{
    desk_plan(its, 1);
    desk_create(its, (tarry_worker_settings){
                         .server = {.dimension = 3,
                                    .stripe_length = 1,
                                    .fill = keeps_stale ? TARRY_FILL_STALE : TARRY_FILL_NONE}});
}

static void desk_begin(desk *its)
{
    desk_begin_keeping(its, false);
}

static void hears(desk *its, tarry_message_type type, uint32_t attempt)
{
    tarry_message message = {
        .type = type,
        .sequence = its->told,
        .attempt = attempt,
        .psi = &its->psi,
        .stripes = &its->stripes,
        .first = &its->first,
        .barred = &its->barred,
        .stale = its->stale != 0 ? &its->stale : NULL,
    };
    if (type == TARRY_MESSAGE_ROUND && its->turns_epoch != its->epoch) {
        its->turns_epoch = its->epoch;
        its->sequence = 0;
    }
    hears_message(its, message);
}

static void hears_signal(desk *its, uint32_t attempt, uint64_t psi, uint64_t stripes)
{
    its->psi = psi;
    its->stripes = stripes;
    hears(its, TARRY_MESSAGE_SIGNAL, attempt);
}

static void has_encoded(desk *its, uint32_t attempt, uint32_t stripe)
{
    happens(its, &(tarry_event){.type = TARRY_EVENT_ENCODED,
                                .round = its->round,
                                .attempt = attempt,
                                .stripe = stripe});
}

static void expect_compute(desk *its, uint32_t slot)
{
    const uint32_t order[LOAD] = {2, 0, 1};
    const tarry_effect *effect = expect(its, TARRY_EFFECT_COMPUTE);
    assert_int_equal(effect->slot, slot);
    assert_int_equal(effect->chunk, order[slot]);
    assert_int_equal(effect->round, its->round);
}

/* What the worker says after NEWS and RESUME that changed its chunk in progress. */
static void expect_word(desk *its, uint32_t next)
{
    const tarry_message *alive = &expect(its, TARRY_EFFECT_SEND)->message;
    assert_int_equal(alive->type, TARRY_MESSAGE_ALIVE);
    assert_int_equal(alive->next, next);
    assert_int_equal(alive->sequence, ++its->sequence);
}

static void expect_report(desk *its, uint32_t slot, bool failed)
{
    const tarry_message *report = &expect(its, TARRY_EFFECT_SEND)->message;
    assert_int_equal(report->type, TARRY_MESSAGE_REPORT);
    assert_int_equal(report->slot, slot);
    assert_int_equal(report->failed, failed);
    assert_int_equal(report->round, its->round);
    assert_int_equal(report->epoch, its->epoch);
    assert_int_equal(report->sequence, ++its->sequence);
    /* What it says of the next one is what it goes on to do. */
    bool goes_on = its->expected < its->effects->count;
    assert_int_equal(report->next, goes_on ? its->effects->items[its->expected].slot : LOAD);
}

static const tarry_effect *expect_encode(desk *its, uint32_t attempt, uint32_t stripe)
{
    const tarry_effect *effect = expect(its, TARRY_EFFECT_ENCODE);
    assert_int_equal(effect->stripe, stripe);
    assert_int_equal(effect->attempt, attempt);
    assert_int_equal(effect->message.type, TARRY_MESSAGE_PART);
    assert_int_equal(effect->message.round, its->round);
    assert_int_equal(effect->message.epoch, its->epoch);
    assert_int_equal(effect->message.attempt, attempt);
    assert_int_equal(effect->message.stripe, stripe);
    return effect;
}

/* Reports the chunk and goes on with the one at `next`; LOAD: with none. */
static void finishes(desk *its, uint32_t slot, uint32_t next)
{
    has_computed(its, slot, false);
    expect_report(its, slot, false);
    if (next < LOAD)
        expect_compute(its, next);
}

/* Turns to another chunk, and says so. */
static void expect_turn(desk *its, uint32_t next)
{
    expect_compute(its, next);
    expect_word(its, next);
}

/* Signalled in the middle of a chunk, with copies of its own: it encodes a first stripe. */
static const tarry_effect *is_signalled(desk *its, uint32_t attempt, uint64_t psi, uint64_t stripes)
{
    hears_signal(its, attempt, psi, stripes);
    expect(its, TARRY_EFFECT_CANCEL);
    return expect_encode(its, attempt, (uint32_t)__builtin_ctzll(stripes));
}

/* Round 0, and `count` chunks finished; the next is being computed. */
static void computes(desk *its, uint32_t count)
{
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect_compute(its, 0);
    for (uint32_t slot = 0; slot < count; slot++)
        finishes(its, slot, slot + 1);
}

DESK(chunks_are_computed_in_order_and_reported)
{
    desk_begin(its);
    computes(its, LOAD);
    happens(its, &(tarry_event){.type = TARRY_EVENT_TIME});
}

DESK(a_failed_chunk_is_reported_and_the_next_begun)
{
    desk_begin(its);
    computes(its, 0);
    has_computed(its, 0, true);
    expect_report(its, 0, true);
    expect_compute(its, 1);
    /* It can't be part of psi. */
    hears_signal(its, 1, OWN_0, 7);
    expect_reject(its, TARRY_REJECT_RANGE);
}

DESK(the_signal_drops_the_chunk_in_progress)
{
    desk_begin(its);
    computes(its, 2);
    hears_signal(its, 1, OWN_0 | OWN_1 | OTHER_1, 5);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 2);
    const float *u = expect_encode(its, 1, 0)->coefficients;
    assert_float_equal(u[0], 1, 1e-6);
    assert_float_equal(u[1], 0.5, 1e-6); /* shared with worker 2 */
    assert_float_equal(u[2], 0, 0);
    has_computed(its, 2, false); /* it came too late */
    expect_reject(its, TARRY_REJECT_STALE);
    /* One stripe after the other. */
    has_encoded(its, 1, 0);
    expect_encode(its, 1, 2);
    has_encoded(its, 1, 2);
    expect_nothing(its);
    has_encoded(its, 1, 2);
    expect_reject(its, TARRY_REJECT_STALE);
}

DESK(a_signal_without_own_copies_only_stops)
{
    desk_begin(its);
    computes(its, 1);
    hears_signal(its, 1, OTHER_1, 7);
    expect(its, TARRY_EFFECT_CANCEL);
}

DESK(after_a_withdrawn_attempt_the_needed_come_first)
{
    desk_begin(its);
    computes(its, 1);
    is_signalled(its, 1, OWN_0, 7);
    its->first = 1 << 2;
    hears(its, TARRY_MESSAGE_RESUME, 1);
    expect_turn(its, 2);
    has_encoded(its, 1, 0); /* the others of attempt 1 are not wanted any more */
    finishes(its, 2, 1);
    /* What is needed can change while a chunk is computed; that one is not dropped. */
    its->first = 0;
    hears(its, TARRY_MESSAGE_RESUME, 1);
    is_signalled(its, 2, OWN_0 | OWN_2, 4);
}

DESK(news_change_what_comes_next)
{
    desk_begin(its);
    its->first = 1 << 1;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect_compute(its, 1);
    /* Only what is barred is dropped. */
    its->first = 1 << 2;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    its->barred = 1 << 1 | 1 << 0;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 1);
    expect_turn(its, 2);
    has_computed(its, 1, false);
    expect_reject(its, TARRY_REJECT_STALE);
    /* Nothing is left but what is barred: it rests until it hears otherwise. */
    has_computed(its, 2, false);
    expect_report(its, 2, false);
    hears(its, TARRY_MESSAGE_NEWS, 0);
    its->first = its->barred = 0;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    expect_turn(its, 0);
    /* A new round knows nothing of the last one's bars. */
    its->barred = 1 << 0;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 0);
    expect_turn(its, 1);
    its->barred = 1 << 1;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 1);
    expect_turn(its, 0);
    its->barred = 7;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 0);
    expect_word(its, LOAD);
    its->barred = 0;
    its->round++;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect_compute(its, 0);
}

/* What comes again, late, does not undo what came after it. */
DESK(older_news_are_stale)
{
    desk_begin(its);
    its->told = 65535;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect_compute(its, 0);
    its->told = 1; /* comes after 65535 */
    its->barred = 1 << 0;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 0);
    expect_turn(its, 1);
    its->told = 65535;
    its->barred = 1 << 1;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    expect_reject(its, TARRY_REJECT_STALE);
    hears(its, TARRY_MESSAGE_RESUME, 0);
    expect_reject(its, TARRY_REJECT_STALE);
    its->told = 1; /* the newest one again changes nothing */
    its->barred = 1 << 0;
    hears(its, TARRY_MESSAGE_NEWS, 0);
}

DESK(news_in_an_attempt_start_nothing)
{
    desk_begin(its);
    computes(its, 1);
    is_signalled(its, 1, OWN_0, 1);
    its->first = 1 << 2;
    hears(its, TARRY_MESSAGE_NEWS, 0);
    expect_reject(its, TARRY_REJECT_STALE);
    hears(its, TARRY_MESSAGE_NEWS, 1);
    hears(its, TARRY_MESSAGE_RESUME, 1);
    expect_turn(its, 2);
}

/* Only what was dropped can be: a gradient may be read while it would be computed anew. */
DESK(what_is_kept_can_not_be_recalled)
{
    desk_begin(its);
    computes(its, LOAD);
    const uint64_t all = 7;
    const tarry_message news = {
        .type = TARRY_MESSAGE_NEWS, .epoch = 1, .term = 1, .recalled = &all};
    happens(its, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &news});
    expect_nothing(its);
}

DESK(a_new_signal_in_the_middle_of_encoding_waits_for_its_end)
{
    desk_begin(its);
    computes(its, 2);
    is_signalled(its, 1, OWN_0, 7);
    hears_signal(its, 2, OWN_0 | OWN_1 | OTHER_1, 3);
    expect_nothing(its);
    has_encoded(its, 1, 0); /* stripe 0 of attempt 2 is still to come */
    const float *u = expect_encode(its, 2, 0)->coefficients;
    assert_float_equal(u[1], 0.5, 1e-6);
    has_encoded(its, 2, 0);
    expect_encode(its, 2, 1);
    has_encoded(its, 2, 1);
}

DESK(a_psi_with_a_copy_that_is_not_here_changes_nothing)
{
    desk_begin(its);
    computes(its, 1);
    hears_signal(its, 1, OWN_0 | OWN_1, 7);
    expect_reject(its, TARRY_REJECT_RANGE);
    has_computed(its, 1, false); /* it was not dropped */
    expect_report(its, 1, false);
    expect_compute(its, 2);
    hears_signal(its, 1, OWN_0 | OWN_1, 1); /* nor is attempt 1 used up */
    expect(its, TARRY_EFFECT_CANCEL);
    expect_encode(its, 1, 0);
}

DESK(old_messages_are_stale)
{
    const tarry_message_type types[] = {TARRY_MESSAGE_SIGNAL, TARRY_MESSAGE_RESUME,
                                        TARRY_MESSAGE_NEWS, TARRY_MESSAGE_FINISH};
    desk_begin(its);
    for (size_t i = 0; i < 4; i++) { /* before any round */
        hears(its, types[i], 1);
        expect_reject(its, TARRY_REJECT_STALE);
    }
    its->round = 3;
    its->epoch = 2;
    computes(its, 1);
    for (uint32_t shift = 0; shift < 4; shift++) {
        its->round = 3 - (shift & 1);
        its->epoch = 2 - (shift >> 1);
        if (shift > 0)
            for (size_t i = 0; i < 4; i++) {
                hears(its, types[i], 1);
                expect_reject(its, TARRY_REJECT_STALE);
            }
        hears(its, TARRY_MESSAGE_ROUND, 0);
        expect_reject(its, TARRY_REJECT_STALE);
    }
    its->round = 3;
    its->epoch = 2;
    is_signalled(its, 2, OWN_0, 1);
    hears_signal(its, 2, OWN_0, 1);
    expect_reject(its, TARRY_REJECT_STALE);
    hears_signal(its, 1, OWN_0, 1);
    expect_reject(its, TARRY_REJECT_STALE);
    hears(its, TARRY_MESSAGE_RESUME, 1);
    expect_reject(its, TARRY_REJECT_STALE);
}

DESK(the_end_of_a_round_stops_everything)
{
    desk_begin(its);
    computes(its, 1);
    hears(its, TARRY_MESSAGE_FINISH, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 1);
    hears_signal(its, 1, OWN_0, 1);
    expect_reject(its, TARRY_REJECT_STALE);
    its->round = 1;
    computes(its, 1);
    is_signalled(its, 1, OWN_0, 7);
    hears(its, TARRY_MESSAGE_FINISH, 1);
    has_encoded(its, 1, 0);
}

DESK(a_new_round_forgets_the_last)
{
    desk_begin(its);
    computes(its, 2);
    its->round = 1;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    assert_int_equal(expect(its, TARRY_EFFECT_CANCEL)->slot, 2);
    expect_compute(its, 0);
    hears_signal(its, 1, OWN_0, 1); /* that copy is of the last round */
    expect_reject(its, TARRY_REJECT_RANGE);
    its->round = 0;
    has_computed(its, 0, false);
    expect_reject(its, TARRY_REJECT_STALE);
    its->round = 1;
    finishes(its, 0, 1);
    is_signalled(its, 1, OWN_0, 3);

    /* The same round again, of a new arrival, while stripe 0 is being encoded. */
    its->epoch = 2;
    computes(its, 1);
    hears_signal(its, 2, OWN_0, 1);
    expect(its, TARRY_EFFECT_CANCEL);
    has_encoded(its, 1, 0);
    expect_encode(its, 2, 0);
}

/* A server that was restarted counts its attempts from 1 again. */
DESK(what_is_encoded_for_an_old_arrival_counts_for_no_new_one)
{
    desk_begin(its);
    computes(its, 1);
    is_signalled(its, 1, OWN_0, 1);
    its->epoch = 2;
    computes(its, 1);
    hears_signal(its, 1, OWN_0, 1);
    expect(its, TARRY_EFFECT_CANCEL);
    expect_nothing(its);
    has_encoded(its, 1, 0); /* of epoch 1 */
    expect_encode(its, 1, 0);
    has_encoded(its, 1, 0);
}

DESK(a_probe_is_answered_at_any_time)
{
    desk_begin(its);
    its->epoch = 4;
    its->round = 9;
    hears(its, TARRY_MESSAGE_PROBE, 0);
    const tarry_message *alive = &expect(its, TARRY_EFFECT_SEND)->message;
    assert_int_equal(alive->type, TARRY_MESSAGE_ALIVE);
    assert_int_equal(alive->epoch, 4);
    assert_int_equal(alive->round, 9);
}

/* What it is at has nothing to do with a round, or an arrival, that it has yet to begin. */
TEST(only_of_its_round_an_answer_says_what_it_computes)
{
    for (uint32_t which = 0; which < 3; which++) {
        desk its;
        desk_begin(&its);
        computes(&its, 1);
        its.round += which == 1;
        its.epoch += which == 2;
        hears(&its, TARRY_MESSAGE_PROBE, 0);
        const tarry_message *alive = &expect(&its, TARRY_EFFECT_SEND)->message;
        assert_int_equal(alive->round, its.round);
        assert_int_equal(alive->epoch, its.epoch);
        assert_int_equal(alive->sequence != 0, which == 0);
        assert_int_equal(alive->next == 3, which != 0);
        desk_end(&its);
    }
}

/* Where everyone gets the sum a connection begins with ASK, and ROUND comes later, for the round
 * that it was in before, maybe. */
DESK(who_was_asked_is_in_no_round_yet)
{
    desk_plan(its, 1);
    desk_create(its,
                (tarry_worker_settings){
                    .server = {.dimension = 3, .stripe_length = 1, .sum = TARRY_SUM_EVERYWHERE}});
    for (its->epoch = 1; its->epoch < 3; its->epoch++) {
        hears(its, TARRY_MESSAGE_ASK, 0);
        if (its->epoch > 1)
            expect(its, TARRY_EFFECT_CANCEL);
        assert_int_equal(expect(its, TARRY_EFFECT_SEND)->message.type, TARRY_MESSAGE_STATE);
        hears(its, TARRY_MESSAGE_PROBE, 0);
        assert_int_equal(expect(its, TARRY_EFFECT_SEND)->message.sequence, 0);
        hears(its, TARRY_MESSAGE_ROUND, 0);
        expect(its, TARRY_EFFECT_COMPUTE);
        hears(its, TARRY_MESSAGE_PROBE, 0);
        assert_int_equal(expect(its, TARRY_EFFECT_SEND)->message.sequence, 1);
    }
}

DESK(what_is_for_the_server_is_refused)
{
    desk_begin(its);
    computes(its, 1);
    for (tarry_message_type type = TARRY_MESSAGE_REPORT; type < TARRY_MESSAGE_TYPES; type++) {
        hears(its, type, 0);
        expect_reject(its, TARRY_REJECT_MISPLACED);
    }
    has_encoded(its, 0, 0);
    expect_reject(its, TARRY_REJECT_STALE);
    const tarry_event_type events[] = {TARRY_EVENT_START, TARRY_EVENT_ABORT, TARRY_EVENT_JOINED,
                                       TARRY_EVENT_LOST,  TARRY_EVENT_HEARD, TARRY_EVENT_COMBINED,
                                       TARRY_EVENT_LOGGED};
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        const tarry_effects *effects = NULL;
        assert_int_equal(
            tarry_worker_step(its->worker, 0, &(tarry_event){.type = events[i]}, &effects),
            TARRY_ERROR_ARGUMENT);
        assert_null(effects);
    }
    its->effects = NULL;
}

/* Two parts of two stripes each. */
DESK(with_two_parts_it_solves_for_both)
{
    desk_plan(its, 2);
    edge_plan_random_decode(its->plan, 1);
    desk_create(its, (tarry_worker_settings){.server = {.dimension = 6, .stripe_length = 2}});
    computes(its, 1);
    /* Chunk 2 is at worker 0 and this one. */
    const tarry_effect *encode = is_signalled(its, 1, 1 << 0 | 1 << 1, 3);
    /* R_S U = I: this worker's row of the inverse of the columns of both. */
    const double *decode = its->plan->decode;
    double a = decode[0], b = decode[1], c = decode[3], d = decode[4], det = a * d - b * c;
    assert_true(fabs((double)encode->coefficients[0] + c / det) < 1e-5);
    assert_true(fabs((double)encode->coefficients[1] - a / det) < 1e-5);
    assert_true(encode->coefficients[2] == 0);
    has_encoded(its, 1, 0);
    expect_encode(its, 1, 1);
}

/* Worker 0's column and this one's are all but parallel: 1/sigma_min is 14,142. */
TEST(the_limit_decides_what_it_solves_with)
{
    /* Of rank 1 both have half of each. */
    const double limits[] = {1000, 14000, 15000, 1e6};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        desk its;
        desk_plan(&its, 2);
        edge_plan_random_decode(its.plan, 1);
        const double angles[] = {0, 1e-4, 1};
        for (uint32_t worker = 0; worker < 3; worker++) {
            its.plan->decode[worker] = cos(angles[worker]);
            its.plan->decode[3 + worker] = sin(angles[worker]);
        }
        desk_create(&its, (tarry_worker_settings){.server = {.dimension = 6,
                                                             .stripe_length = 3,
                                                             .conditioning_limit = limits[i]}});
        computes(&its, 1);
        /* Chunk 2 is at worker 0 and this one. */
        const tarry_effect *encode = is_signalled(&its, 1, 1 << 0 | 1 << 1, 1);
        bool whole = limits[i] > 1 / sqrt(1 - cos(1e-4));
        double first = (double)encode->coefficients[0], second = (double)encode->coefficients[1];
        assert_true(fabs(first - (whole ? 0 : 0.5)) < 1e-4);
        assert_true(fabs(second / (whole ? 1 / sin(1e-4) : 0.25e-4) - 1) < 1e-3);
        desk_end(&its);
    }
}

TEST(creation_checks_its_settings_and_every_allocation)
{
    tarry_plan *plan = edge_plan_cyclic(4, 5, 3, 2);
    edge_plan_random_decode(plan, 1);
    worker_creation made = {
        plan,
        {.worker = 1,
         .server = {.dimension = 140, .stripe_length = 1, .conditioning_limit = 1000}}};
    assert_true(fail_each_allocation(create_worker, &made) > 5);
    const tarry_worker_settings bad[] = {
        {.worker = 4, .server = {.dimension = 1, .stripe_length = 1, .conditioning_limit = 1000}},
        {.worker = 0, .server = {.dimension = 0, .stripe_length = 1, .conditioning_limit = 1000}},
        {.worker = 0, .server = {.dimension = 1, .stripe_length = 0, .conditioning_limit = 1000}},
        {.worker = 0, .server = {.dimension = 1, .stripe_length = 1, .conditioning_limit = 1}},
        {.worker = 0, .server = {.dimension = 1, .stripe_length = 1, .conditioning_limit = NAN}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        tarry_worker *worker = NULL;
        tarry_diagnostic diagnostic;
        assert_int_equal(tarry_worker_create(plan, &bad[i], NULL, &worker, &diagnostic),
                         TARRY_ERROR_ARGUMENT);
        assert_null(worker);
    }
    tarry_plan_free(plan);
    tarry_worker_free(NULL);
}

/* Round 1, after a round 0 in which positions 0 and 1 were finished; position 2 is too, now. */
static void computes_anew(desk *its, bool keeps_stale)
{
    desk_begin_keeping(its, keeps_stale);
    computes(its, 2);
    its->round = 1;
    its->first = 4;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect(its, TARRY_EFFECT_CANCEL);
    expect_compute(its, 2);
    finishes(its, 2, 0);
}

DESK(a_copy_of_the_round_before_is_encoded)
{
    computes_anew(its, true);
    its->stale = 2;
    const tarry_effect *encode = is_signalled(its, 1, OWN_1 | OTHER_1 | OWN_2, 1);
    assert_int_equal(*encode->stale, 2);
    assert_float_equal(encode->coefficients[0], 0, 0);
    assert_float_equal(encode->coefficients[1], 0.5, 0);
    assert_float_equal(encode->coefficients[2], 1, 0);
    /* The next attempt says anew what is stale. */
    has_encoded(its, 1, 0);
    its->stale = 0;
    hears_signal(its, 2, OWN_2, 1);
    assert_int_equal(*expect_encode(its, 2, 0)->stale, 0);
}

DESK(only_what_is_kept_of_the_round_before_is_encoded)
{
    computes_anew(its, true);
    its->stale = 4; /* was not finished then */
    hears_signal(its, 1, OWN_2, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
    its->stale = 0; /* was finished then alone */
    hears_signal(its, 1, OWN_1, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
    its->stale = 2;
    /* A round later it is gone. */
    its->round = 2;
    hears(its, TARRY_MESSAGE_ROUND, 0);
    expect(its, TARRY_EFFECT_CANCEL);
    expect_compute(its, 2);
    hears_signal(its, 1, OWN_1, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
    /* Two rounds on, nothing is of the round before; nor is it after another arrival. */
    its->stale = 4;
    finishes(its, 2, 0);
    for (uint32_t jump = 0; jump < 2; jump++) {
        its->round += jump == 0 ? 2 : 1;
        its->epoch += jump;
        hears(its, TARRY_MESSAGE_ROUND, 0);
        expect(its, TARRY_EFFECT_CANCEL);
        expect_compute(its, 2);
        hears_signal(its, 1, OWN_2, 1);
        expect_reject(its, TARRY_REJECT_RANGE);
        finishes(its, 2, 0);
    }
}

DESK(without_room_for_it_nothing_is_kept)
{
    computes_anew(its, false);
    its->stale = 2;
    hears_signal(its, 1, OWN_1, 1);
    expect_reject(its, TARRY_REJECT_RANGE);
}

/* What the server says of the round before comes first; what is out of a round stays so while that
 * begins anew. */
DESK(residuals_are_settled_before_all_else)
{
    desk_plan(its, 1);
    desk_create(
        its, (tarry_worker_settings){
                 .server = {.dimension = 3, .stripe_length = 1, .compress = TARRY_COMPRESS_INT4}});
    its->round = 4;
    its->epoch = 1;
    const uint32_t none[3] = {0};
    hears_message(
        its, (tarry_message){.type = TARRY_MESSAGE_ROUND, .sequence = 1, .life = 1, .stood = none});
    expect_compute(its, 0);
    finishes(its, 0, 1);
    is_signalled(its, 1, OWN_0, 5);
    has_encoded(its, 1, 0);
    expect_encode(its, 1, 2);
    has_encoded(its, 1, 2);
    expect_nothing(its);
    const uint32_t stood[3] = {1, 1, 0};
    its->round = 5;
    hears_message(its, (tarry_message){
                           .type = TARRY_MESSAGE_ROUND, .sequence = 1, .life = 1, .stood = stood});
    const tarry_effect *settled = expect(its, TARRY_EFFECT_SETTLE);
    assert_int_equal(*settled->stood, 1);
    assert_int_equal(*settled->voids, 0);
    expect_compute(its, 0);
    assert_int_equal(its->worker->residuals.void_count, 0);
    its->epoch = 7;
    its->sequence = 0;
    hears_message(
        its, (tarry_message){.type = TARRY_MESSAGE_ROUND, .sequence = 1, .life = 7, .stood = none});
    settled = expect(its, TARRY_EFFECT_SETTLE);
    assert_int_equal(*settled->stood, 0);
    assert_int_equal(*settled->voids, 1);
    expect(its, TARRY_EFFECT_CANCEL);
    expect_compute(its, 0);
    assert_int_equal(its->worker->residuals.void_count, 1);
}
