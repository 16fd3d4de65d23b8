/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include "base/bitset.h"
#include "creation.h"
#include "edge_plan.h"
#include "test.h"

void story_plan(story *told, uint32_t workers, uint32_t replication)
{
    *told = (story){.epoch = 1};
    size_t count = (size_t)workers * replication;
    edge *edges = checked_malloc(count * sizeof(*edges));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = i / replication;
        edges[i] = (edge){.worker = worker, .chunk = (worker + i % replication) % workers};
    }
    told->plan = edge_plan_make(workers, workers, 1, edges, count, NULL);
    assert_non_null(told->plan);
    free(edges);
    tarry_server_settings_init(&told->settings);
    told->settings.dimension = 10;
    told->settings.stripe_length = 16;
    told->settings.silence_ns = 800 * STORY_MS;
}

void story_begin(story *told)
{
    told->server = server_make(told->plan, &told->settings);
    for (uint32_t worker = 0; worker < told->plan->workers; worker++)
        joins(told, worker);
    starts(told);
}

void story_play(story *told, uint32_t workers, uint32_t replication)
{
    story_plan(told, workers, replication);
    story_begin(told);
}

void three_are_signalled(story *told, tarry_compress form)
{
    story_plan(told, 3, 2);
    told->settings.stripe_length = 5;
    told->settings.compress = form;
    story_begin(told);
    at(told, 5);
    each_reports(told, 3, 0);
    expect_clear(told, 0);
    expect_clear(told, 1);
    expect_signal(told, 0, 1, "1001", "11"); /* chunk 0 at {0, 2}, chunk 1 at {0, 1} */
    expect_signal(told, 1, 1, "0101", "11"); /* chunk 1 at {0, 1}, chunk 2 at {1, 2} */
    expect_signal(told, 2, 1, "0110", "11"); /* chunk 2 at {1, 2}, chunk 0 at {0, 2} */
}

void story_adopt(story *told)
{
    tarry_server *server = server_make(told->plan, &told->settings);
    assert_ok(tarry_server_adopt(server, told->server, NULL));
    tarry_server_free(told->server);
    told->server = server;
    told->effects = NULL;
    told->expected = 0;
}

void story_end(story *told)
{
    expect_nothing(told);
    tarry_server_free(told->server);
    tarry_plan_free(told->plan);
}

void at(story *told, uint64_t ms)
{
    assert_true(ms * STORY_MS >= told->now);
    told->now = ms * STORY_MS;
}

void happens(story *told, const tarry_event *event)
{
    expect_nothing(told);
    told->expected = 0;
    assert_ok(tarry_server_step(told->server, told->now, event, &told->effects));
}

void is_refused(story *told, const tarry_event *event, int error)
{
    expect_nothing(told);
    told->effects = NULL;
    const tarry_effects *effects = NULL;
    assert_int_equal(tarry_server_step(told->server, told->now, event, &effects), error);
    assert_null(effects);
}

void is_heard(story *told, uint32_t worker)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = worker});
}

void joins(story *told, uint32_t worker)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
}

void is_lost(story *told, uint32_t worker)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker});
    expect_left_out(told, worker, TARRY_ABSENT_GONE);
}

void is_aborted(story *told)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_ABORT});
    expect_finish(told);
    expect_done(told, TARRY_ERROR_INTERRUPTED);
}

void starts(story *told)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_START});
    for (uint32_t worker = 0; worker < told->plan->workers; worker++)
        if (tarry_server_present(told->server, worker))
            told->round = expect_send(told, worker, TARRY_MESSAGE_ROUND)->round;
}

void says(story *told, uint32_t worker, const tarry_message *message)
{
    happens(told, &(tarry_event){
                      .type = TARRY_EVENT_MESSAGE,
                      .worker = worker,
                      .message = message,
                  });
}

static tarry_message message_of(const story *told, tarry_message_type type)
{
    return (tarry_message){.type = type, .round = told->round, .epoch = told->epoch};
}

void reports(story *told, uint32_t worker, uint32_t slot)
{
    tarry_message report = message_of(told, TARRY_MESSAGE_REPORT);
    report.slot = slot;
    says(told, worker, &report);
}

void each_reports(story *told, uint32_t count, uint32_t slot)
{
    for (uint32_t worker = 0; worker < count; worker++)
        reports(told, worker, slot);
}

void fails(story *told, uint32_t worker, uint32_t slot)
{
    tarry_message report = message_of(told, TARRY_MESSAGE_REPORT);
    report.slot = slot;
    report.failed = true;
    says(told, worker, &report);
}

void sends_part(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe)
{
    tarry_message part = message_of(told, TARRY_MESSAGE_PART);
    part.attempt = attempt;
    part.stripe = stripe;
    says(told, worker, &part);
}

void is_combined(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe)
{
    happens(told, &(tarry_event){
                      .type = TARRY_EVENT_COMBINED,
                      .worker = worker,
                      .round = told->round,
                      .attempt = attempt,
                      .stripe = stripe,
                  });
}

void delivers(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe)
{
    sends_part(told, worker, attempt, stripe);
    expect_combine(told, worker, attempt, stripe);
    is_combined(told, worker, attempt, stripe);
}

void each_delivers(story *told, uint32_t count, uint32_t attempt, uint32_t stripe)
{
    for (uint32_t worker = 0; worker < count; worker++)
        delivers(told, worker, attempt, stripe);
}

void is_alive(story *told, uint32_t worker)
{
    tarry_message alive = message_of(told, TARRY_MESSAGE_ALIVE);
    says(told, worker, &alive);
}

void each_is_alive(story *told, uint32_t count)
{
    for (uint32_t worker = 0; worker < count; worker++)
        is_alive(told, worker);
}

void time_passes(story *told)
{
    happens(told, &(tarry_event){.type = TARRY_EVENT_TIME});
}

void passes(story *told, uint64_t ms)
{
    at(told, ms);
    time_passes(told);
}

static const tarry_effect *expect(story *told, tarry_effect_type type)
{
    assert_non_null(told->effects);
    assert_true(told->expected < told->effects->count);
    const tarry_effect *effect = &told->effects->items[told->expected++];
    assert_int_equal(effect->type, type);
    return effect;
}

const tarry_message *expect_send(story *told, uint32_t worker, tarry_message_type type)
{
    const tarry_effect *effect = expect(told, TARRY_EFFECT_SEND);
    assert_int_equal(effect->worker, worker);
    assert_int_equal(effect->message.type, type);
    return &effect->message;
}

void expect_each(story *told, uint32_t count, tarry_message_type type)
{
    for (uint32_t worker = 0; worker < count; worker++)
        expect_send(told, worker, type);
}

static void expect_present(story *told, tarry_message_type type)
{
    for (uint32_t worker = 0; worker < told->plan->workers; worker++)
        if (tarry_server_present(told->server, worker))
            expect_send(told, worker, type);
}

void expect_signals(story *told)
{
    expect_clear(told, 0);
    expect_present(told, TARRY_MESSAGE_SIGNAL);
}

void expect_finish(story *told)
{
    expect_present(told, TARRY_MESSAGE_FINISH);
}

static void assert_bits(const uint64_t *set, const char *text)
{
    for (size_t bit = 0; text[bit] != '\0'; bit++)
        assert_int_equal(bitset_test(set, bit), text[bit] == '1');
}

void expect_signal(story *told, uint32_t worker, uint32_t attempt, const char *psi,
                   const char *stripes)
{
    const tarry_message *signal = expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    assert_int_equal(signal->attempt, attempt);
    assert_bits(signal->psi, psi);
    assert_bits(signal->stripes, stripes);
}

void expect_resume(story *told, uint32_t worker, const char *slots)
{
    assert_bits(expect_send(told, worker, TARRY_MESSAGE_RESUME)->first, slots);
}

void expect_clear(story *told, uint32_t stripe)
{
    assert_int_equal(expect(told, TARRY_EFFECT_CLEAR)->stripe, stripe);
}

void expect_combine(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe)
{
    const tarry_effect *effect = expect(told, TARRY_EFFECT_COMBINE);
    assert_int_equal(effect->worker, worker);
    assert_int_equal(effect->round, told->round);
    assert_int_equal(effect->attempt, attempt);
    assert_int_equal(effect->stripe, stripe);
    assert_true(effect->scale == (told->scale > 0 ? told->scale : 1));
}

void expect_reject(story *told, uint32_t worker, tarry_reject why)
{
    const tarry_effect *effect = expect(told, TARRY_EFFECT_REJECT);
    assert_int_equal(effect->worker, worker);
    assert_int_equal(effect->reject, why);
}

const tarry_effect *expect_left_out(story *told, uint32_t worker, tarry_absence reason)
{
    const tarry_effect *effect = expect(told, TARRY_EFFECT_LEFT_OUT);
    assert_int_equal(effect->worker, worker);
    assert_int_equal(effect->reason, reason);
    return effect;
}

const tarry_round_result *expect_done(story *told, int error)
{
    const tarry_round_result *result = expect(told, TARRY_EFFECT_DONE)->result;
    assert_int_equal(result->error, error);
    assert_int_equal(result->round, told->round);
    assert_int_equal(result->end_ns, told->now);
    return result;
}

const tarry_round_result *expect_exact(story *told)
{
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_true(result->exact);
    return result;
}

void expect_nothing(story *told)
{
    if (told->effects != NULL)
        assert_int_equal(told->expected, told->effects->count);
}

void expect_deadline(const story *told, uint64_t ms)
{
    uint64_t deadline = tarry_server_deadline(told->server);
    assert_int_equal(deadline / STORY_MS, ms);
    assert_true(deadline % STORY_MS <= 1); /* looks are a nanosecond more than 100 ms apart */
}
