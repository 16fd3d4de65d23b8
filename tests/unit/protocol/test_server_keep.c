/* SPDX-License-Identifier: Apache-2.0 */
/* TARRY_KEEP_CREDITED at the server: one copy of a chunk counts, and everyone hears which. */
#include <math.h>

#include "base/bitset.h"
#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "story.h"
#include "test.h"

/* Worker j of the ring of three computes chunk j, then j + 1. */
static void three_fold(story *told)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    story_begin(told);
}

/* The worker has heard of that many signals and recalls when it reports. */
static void reports_in(story *told, uint32_t worker, uint32_t slot, uint32_t term)
{
    says(told, worker,
         &(tarry_message){.type = TARRY_MESSAGE_REPORT,
                          .round = told->round,
                          .epoch = told->epoch,
                          .slot = slot,
                          .term = term});
}

/* first as a text of bits; NULL: not said. */
static const tarry_message *expect_news(story *told, uint32_t worker, tarry_fate fate,
                                        uint32_t slot, uint32_t term, const char *first)
{
    const tarry_message *news = expect_send(told, worker, TARRY_MESSAGE_NEWS);
    assert_int_equal(news->fate, fate);
    assert_int_equal(news->slot, slot);
    assert_int_equal(news->term, term);
    assert_int_equal(news->first != NULL, first != NULL);
    for (size_t bit = 0; first != NULL && first[bit] != '\0'; bit++)
        assert_int_equal(bitset_test(news->first, bit), first[bit] == '1');
    return news;
}

/* One dropped copy is wanted after all, and is what is missing. */
static void expect_recall(story *told, uint32_t worker, uint32_t slot, uint32_t term)
{
    const tarry_message *news =
        expect_news(told, worker, TARRY_FATE_OPEN, 0, term, slot == 0 ? "10" : "01");
    assert_non_null(news->recalled);
    assert_int_equal(*news->recalled & 3, 1 << slot);
}

/* A signal for the one stripe. */
static void expect_signal_of_term(story *told, uint32_t worker, uint32_t attempt, const char *psi,
                                  uint32_t term)
{
    expect_signal(told, worker, attempt, psi, "1");
    assert_int_equal(told->effects->items[told->expected - 1].message.term, term);
}

static void is_credited(story *told, uint32_t worker, uint32_t slot)
{
    reports(told, worker, slot);
    expect_news(told, worker, TARRY_FATE_CREDITED, slot, 0, NULL);
}

static void is_dropped(story *told, uint32_t worker, uint32_t slot)
{
    reports(told, worker, slot);
    expect_news(told, worker, TARRY_FATE_DROPPED, slot, 0, NULL);
}

/* Each is credited with its first chunk, and signalled so. */
static void expect_one_each(story *told)
{
    expect_clear(told, 0);
    expect_signal_of_term(told, 0, 1, "1001", 1); /* chunk 0 at 0, chunk 1 at 1 */
    expect_signal_of_term(told, 1, 1, "0101", 1); /* chunk 1 at 1, chunk 2 at 2 */
    expect_signal_of_term(told, 2, 1, "0110", 1); /* chunk 2 at 2, chunk 0 at 0 */
}

STORY(the_first_copy_counts_and_the_next_is_dropped)
{
    three_fold(told);
    at(told, 5);
    is_credited(told, 0, 0);
    at(told, 6);
    is_dropped(told, 2, 1); /* chunk 0 again */
    reports(told, 2, 1);
    expect_reject(told, 2, TARRY_REJECT_DUPLICATE);
    at(told, 7);
    is_credited(told, 1, 0);
    fails(told, 0, 1); /* no copy, no answer */
    at(told, 8);
    is_credited(told, 2, 0);
    expect_one_each(told);
    each_delivers(told, 3, 1, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->copies_computed, 4);
    assert_int_equal(result->copies_coded, 3);
    /* The next round begins anew. */
    starts(told);
    is_credited(told, 2, 1);
    is_dropped(told, 0, 0);
}

STORY(what_the_lost_were_credited_with_is_recalled)
{
    three_fold(told);
    at(told, 5);
    is_credited(told, 0, 0);
    is_dropped(told, 2, 1);
    is_credited(told, 2, 0);
    assert_int_equal(tarry_server_finished(told->server, 2), 2);
    double pace_ns = tarry_server_pace_ns(told->server, 2);
    assert_true(pace_ns > 0);
    at(told, 9);
    is_lost(told, 0);
    expect_recall(told, 2, 1, 1);
    assert_int_equal(tarry_server_finished(told->server, 2), 1);
    /* What was said of the copy that is gone, once more; and what nobody can have heard of. */
    reports_in(told, 2, 1, 0);
    expect_reject(told, 2, TARRY_REJECT_DUPLICATE);
    reports_in(told, 2, 1, 2);
    expect_reject(told, 2, TARRY_REJECT_RANGE);
    at(told, 12);
    reports_in(told, 2, 1, 1);
    expect_news(told, 2, TARRY_FATE_CREDITED, 1, 1, "00");
    /* Most of the time since its report before it had nothing to do. */
    assert_true(fabs(tarry_server_pace_ns(told->server, 2) - pace_ns) < 1e-3);
    at(told, 13);
    is_credited(told, 1, 0);
    expect_clear(told, 0);
    expect_signal_of_term(told, 1, 1, "0101", 1);
    expect_signal_of_term(told, 2, 1, "0101", 2);
}

/* The worker drops it when it hears the signal: it has to come again. */
STORY(a_report_that_crosses_the_signal_is_void)
{
    three_fold(told);
    at(told, 5);
    is_credited(told, 0, 0);
    is_credited(told, 1, 0);
    is_credited(told, 2, 0);
    expect_one_each(told);
    at(told, 6);
    reports(told, 0, 1);
    expect_nothing(told);
    reports(told, 0, 1);
    expect_reject(told, 0, TARRY_REJECT_DUPLICATE);
    at(told, 7);
    is_lost(told, 1);
    expect_resume(told, 0, "01");
    expect_resume(told, 2, "00");
    at(told, 9);
    reports_in(told, 0, 1, 1);
    expect_news(told, 0, TARRY_FATE_CREDITED, 1, 1, "00");
    expect_clear(told, 0);
    expect_signal_of_term(told, 0, 2, "1010", 2);
    expect_signal_of_term(told, 2, 2, "0110", 2);
    delivers(told, 0, 2, 0);
    delivers(told, 2, 2, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_int_equal(result->copies_computed, 5);
}

STORY(a_loss_after_the_signal_recalls_before_it_resumes)
{
    three_fold(told);
    at(told, 5);
    is_credited(told, 0, 0);
    is_credited(told, 0, 1);
    is_dropped(told, 1, 0);
    is_credited(told, 2, 0);
    expect_clear(told, 0);
    expect_signal_of_term(told, 0, 1, "1010", 1);
    expect_signal_of_term(told, 1, 1, "1001", 1);
    expect_signal_of_term(told, 2, 1, "0110", 1);
    at(told, 6);
    is_lost(told, 0);
    expect_recall(told, 1, 0, 2);
    expect_resume(told, 1, "10");
    expect_resume(told, 2, "01");
    at(told, 8);
    reports_in(told, 1, 0, 2);
    expect_news(told, 1, TARRY_FATE_CREDITED, 0, 2, "00");
    at(told, 9);
    reports_in(told, 2, 1, 1);
    expect_news(told, 2, TARRY_FATE_CREDITED, 1, 1, "00");
    expect_clear(told, 0);
    expect_signal_of_term(told, 1, 2, "0101", 3);
    expect_signal_of_term(told, 2, 2, "0101", 2);
}

/* Whoever has to compute a chunk again has not finished all. */
STORY(a_recalled_worker_is_not_whole)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.stop = TARRY_STOP_WORKERS;
    told->settings.workers_needed = 2;
    story_begin(told);
    is_credited(told, 1, 0);
    is_credited(told, 2, 1);
    is_dropped(told, 0, 1);
    is_credited(told, 1, 1);
    is_lost(told, 1);
    expect_recall(told, 0, 1, 1);
    reports_in(told, 0, 0, 1);
    expect_news(told, 0, TARRY_FATE_DROPPED, 0, 1, "01");
    is_credited(told, 2, 0);
    reports_in(told, 0, 1, 1);
    expect_news(told, 0, TARRY_FATE_CREDITED, 1, 1, "00");
    expect_clear(told, 0);
    expect_signal_of_term(told, 0, 1, "0110", 2);
    expect_signal_of_term(told, 2, 1, "0101", 1);
}

/* What a dynamic order said stands; it is said anew only if that changes it, or with a recall. */
STORY(news_of_a_fate_say_nothing_of_a_dynamic_order)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.pick = TARRY_PICK_SHARE;
    story_begin(told);
    uint32_t answers = 0, silent = 0;
    for (uint32_t worker = 0; worker < 3; worker++) {
        at(told, 10 + worker);
        /* The story's own words; news in answer are looked at, not expected one by one. */
        const tarry_message report = {.type = TARRY_MESSAGE_REPORT,
                                      .round = told->round,
                                      .epoch = told->epoch,
                                      .slot = 0,
                                      .next = 2,
                                      .sequence = 1};
        says(told, worker, &report);
        for (size_t i = 0; i < told->effects->count; i++) {
            const tarry_effect *effect = &told->effects->items[i];
            if (effect->type != TARRY_EFFECT_SEND || effect->message.type != TARRY_MESSAGE_NEWS ||
                effect->message.fate == TARRY_FATE_OPEN)
                continue;
            answers++;
            silent += effect->message.sequence == 0;
            assert_true(effect->message.sequence != 0 || effect->message.first == NULL);
            assert_true(effect->message.sequence != 0 || effect->message.barred == NULL);
        }
        told->expected = told->effects->count;
    }
    assert_int_equal(answers, 3);
    assert_true(silent > 0);
}

/* Late ones have copies that nobody else has: they are waited for, and keep their credit. */
/* With a rule under which others are not asked to make up for them. */
STORY(the_late_keep_their_credit)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.stop = TARRY_STOP_ERROR;
    story_begin(told);
    is_credited(told, 0, 0);
    is_dropped(told, 2, 1);
    is_credited(told, 1, 0);
    is_credited(told, 2, 0);
    expect_one_each(told);
    at(told, 1);
    each_delivers(told, 2, 1, 0);
    at(told, 101);
    each_is_alive(told, 3);
    at(told, 201);
    is_alive(told, 2); /* after as long as repeating would take */
    at(told, 202);
    is_lost(told, 0); /* its part is in */
    expect_recall(told, 2, 1, 2);
    delivers(told, 2, 1, 0);
    expect_exact(told);
}

TEST(what_can_not_be_folded_is_refused)
{
    tarry_plan *plan = edge_plan_cyclic(3, 3, 2, 2);
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 10;
    settings.keep = TARRY_KEEP_CREDITED;
    assert_refused(plan, &settings, "more than one part");
    tarry_plan_free(plan);
    plan = edge_plan_cyclic(3, 3, 2, 1);
    settings.reproducible = true;
    assert_refused(plan, &settings, "reproducible");
    settings.reproducible = false;
    settings.credit = TARRY_CREDIT_WHOLE;
    assert_refused(plan, &settings, "whole worker");
    settings.credit = TARRY_CREDIT_CHUNK;
    settings.fill = TARRY_FILL_STALE;
    assert_refused(plan, &settings, "the round before");
    settings.fill = TARRY_FILL_NONE;
    settings.keep = (tarry_keep)2;
    assert_refused(plan, &settings, "keep must be");
    tarry_plan_free(plan);
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(4, 5, 3, 1);
    server_creation made = {.plan = plan};
    tarry_server_settings_init(&made.settings);
    made.settings.dimension = 10;
    made.settings.keep = TARRY_KEEP_CREDITED;
    assert_true(fail_each_allocation(create_server, &made) > 10);
}
