/* SPDX-License-Identifier: Apache-2.0 */
/* Secure sums at the server: every signal says to all whose copy of each chunk counts, and in which
 * of its lives the holder is. */
#include <math.h>

#include "creation.h"
#include "edge_plan.h"
#include "story.h"
#include "test.h"

/* Worker j of the ring of three computes chunk j, then j + 1. */
static void three_secure(story *told, uint32_t bits)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.secure = bits;
    story_begin(told);
}

static void is_settled(story *told, uint32_t worker, uint32_t slot)
{
    reports(told, worker, slot);
    expect_send(told, worker, TARRY_MESSAGE_NEWS);
}

static void expect_word(story *told, uint32_t worker, uint32_t attempt, const uint32_t holders[3],
                        const uint32_t lives[3])
{
    const tarry_message *signal = expect_send(told, worker, TARRY_MESSAGE_SIGNAL);
    assert_int_equal(signal->attempt, attempt);
    assert_memory_equal(signal->holders, holders, 3 * sizeof(*holders));
    assert_memory_equal(signal->lives, lives, 3 * sizeof(*lives));
    assert_null(signal->stale);
}

STORY(every_signal_names_all_holders)
{
    three_secure(told, 32);
    at(told, 5);
    is_settled(told, 0, 0);
    is_settled(told, 0, 1);
    is_settled(told, 1, 0); /* chunk 1 again: dropped */
    is_settled(told, 2, 0);
    expect_clear(told, 0);
    /* Worker 1 has nothing in the sum: it is told all the same. */
    const uint32_t holders[] = {0, 0, 2}, lives[] = {1, 0, 1};
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_word(told, worker, 1, holders, lives);
    delivers(told, 2, 1, 0);
    delivers(told, 0, 1, 0);
    const tarry_round_result *result = expect_exact(told);
    /* 10 numbers, 2 counts and 2 words that check, twice. */
    assert_int_equal(result->upload_bytes, 2 * 14 * 4);
}

/* A holder is lost before its part is there: another attempt, other holders, other lives. */
STORY(a_second_life_is_named_as_such)
{
    three_secure(told, 64);
    at(told, 5);
    is_settled(told, 0, 0);
    is_settled(told, 1, 0);
    is_settled(told, 2, 0);
    expect_clear(told, 0);
    const uint32_t holders[] = {0, 1, 2}, lives[] = {1, 1, 1};
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_word(told, worker, 1, holders, lives);
    delivers(told, 2, 1, 0);
    at(told, 6);
    is_lost(told, 0);
    /* Worker 2 holds chunk 0, too, but dropped nothing of it: it computes. */
    expect_send(told, 1, TARRY_MESSAGE_RESUME);
    expect_send(told, 2, TARRY_MESSAGE_RESUME);
    joins(told, 0);
    expect_send(told, 0, TARRY_MESSAGE_ROUND);
    at(told, 9);
    says(told, 0, &(tarry_message){.type = TARRY_MESSAGE_REPORT, .round = told->round, .epoch = 2});
    expect_send(told, 0, TARRY_MESSAGE_NEWS);
    expect_clear(told, 0);
    const uint32_t again[] = {2, 1, 1};
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_word(told, worker, 2, holders, again);
    assert_int_equal(tarry_server_round(told->server), told->round);
}

/* What other forms have a factor for has none here. */
STORY(parts_in_another_form_are_refused)
{
    three_secure(told, 32);
    at(told, 5);
    is_settled(told, 0, 0);
    is_settled(told, 0, 1);
    is_settled(told, 2, 0);
    expect_signals(told);
    says(told, 0,
         &(tarry_message){.type = TARRY_MESSAGE_PART,
                          .round = told->round,
                          .epoch = 1,
                          .attempt = 1,
                          .form = TARRY_COMPRESS_BF16});
    expect_reject(told, 0, TARRY_REJECT_RANGE);
    delivers(told, 0, 1, 0);
}

/* Whatever else is wanted of order costs nothing: sums of integers are the same bits. */
STORY(reproducible_changes_nothing)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    told->settings.secure = 32;
    told->settings.reproducible = true;
    told->settings.pick = TARRY_PICK_SHARE;
    tarry_server_free(server_make(told->plan, &told->settings));
    told->settings.pick = TARRY_PICK_PLAN;
    story_begin(told);
    at(told, 5);
    is_settled(told, 0, 0);
    is_settled(told, 0, 1);
    is_settled(told, 2, 0);
    expect_clear(told, 0); /* though worker 1 has finished nothing */
    expect_each(told, 3, TARRY_MESSAGE_SIGNAL);
    delivers(told, 2, 1, 0); /* at once, and not in the workers' order */
}

STORY(bits_are_32_or_64)
{
    story_plan(told, 3, 2);
    told->settings.keep = TARRY_KEEP_CREDITED;
    for (uint32_t bits = 0; bits <= 128; bits++) {
        OWNED(tarry_server) server = NULL;
        told->settings.secure = bits;
        int error = tarry_server_create(told->plan, &told->settings, NULL, &server, NULL);
        assert_int_equal(error,
                         bits == 0 || bits == 32 || bits == 64 ? TARRY_OK : TARRY_ERROR_ARGUMENT);
    }
    told->settings.secure = 32;
    story_begin(told);
}
