/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bitset.h"
#include "creation.h"
#include "failing_allocator.h"
#include "story.h"
#include "test.h"

/* Each round ends 50 ms after its start. */
static void plan(story *told, uint32_t workers, uint32_t replication, tarry_fill fill)
{
    story_plan(told, workers, replication);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 50 * STORY_MS;
    told->settings.fill = fill;
}

static void begin(story *told, uint32_t workers, uint32_t replication, tarry_fill fill)
{
    plan(told, workers, replication, fill);
    story_begin(told);
}

/* A signal with this psi, and with these positions taken from the round before; "": none. */
static void expect_fill(story *told, uint32_t worker, uint32_t attempt, const char *psi,
                        const char *stale)
{
    const tarry_effect *effect = &told->effects->items[told->expected];
    expect_signal(told, worker, attempt, psi, "1");
    assert_int_equal(effect->message.stale == NULL, stale[0] == '\0');
    for (size_t slot = 0; stale[slot] != '\0'; slot++)
        assert_int_equal(bitset_test(effect->message.stale, slot), stale[slot] == '1');
}

STORY(parts_are_scaled_by_what_is_missing)
{
    begin(told, 4, 1, TARRY_FILL_SCALE);
    reports(told, 1, 0);
    passes(told, 50);
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < 4; worker++)
        expect_fill(told, worker, 1, worker == 1 ? "1" : "0", "");
    told->scale = 4;
    delivers(told, 1, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_false(result->exact);
    assert_float_equal(result->expected_error, 3, 1e-12); /* (1 - 1/4) / (1/4) */
    assert_int_equal(result->chunks_filled, 0);
    assert_float_equal(result->filled_share, 0, 0);
}

STORY(nothing_and_everything_are_not_scaled)
{
    begin(told, 2, 1, TARRY_FILL_SCALE);
    passes(told, 50);
    expect_clear(told, 0);
    expect_fill(told, 0, 1, "0", "");
    expect_fill(told, 1, 1, "0", "");
    assert_float_equal(expect_done(told, TARRY_OK)->expected_error, 1, 0);
    starts(told);
    each_reports(told, 2, 0);
    expect_clear(told, 0);
    expect_fill(told, 0, 1, "1", "");
    expect_fill(told, 1, 1, "1", "");
    each_delivers(told, 2, 1, 0);
    const tarry_round_result *result = expect_exact(told);
    assert_float_equal(result->expected_error, 0, 0);
}

/* The ring of three, of which all but worker 2 finish all: every chunk is recovered. */
static void two_finish(story *told)
{
    begin(told, 3, 2, TARRY_FILL_STALE);
    reports(told, 0, 0);
    reports(told, 0, 1);
    reports(told, 1, 0);
    reports(told, 1, 1);
    expect_clear(told, 0);
    expect_fill(told, 0, 1, "1011", "");
    expect_fill(told, 1, 1, "1110", "");
    expect_fill(told, 2, 1, "1010", "");
    each_delivers(told, 2, 1, 0);
    expect_exact(told);
}

STORY(missing_chunks_are_taken_from_the_round_before)
{
    two_finish(told);
    at(told, 100);
    starts(told);
    reports(told, 2, 1); /* chunk 0 */
    passes(told, 150);
    expect_clear(told, 0);
    /* Chunk 0 at 0 and 2, chunk 1 at 0 and 1, chunk 2 at 1 and 2. */
    expect_fill(told, 0, 1, "0111", "01");
    expect_fill(told, 1, 1, "1110", "11");
    expect_fill(told, 2, 1, "1001", "");
    each_delivers(told, 3, 1, 0);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_false(result->exact);
    assert_int_equal(result->chunks_filled, 2);
    assert_int_equal(result->copies_coded, 1);
    assert_true(fabs(result->expected_error - 2.0 / 3) < 1e-12);
    assert_true(fabs(result->filled_share - 2.0 / 3) < 1e-12);

    /* What stood in for a chunk then is two rounds old now. */
    at(told, 200);
    starts(told);
    passes(told, 250);
    expect_clear(told, 0);
    expect_fill(told, 0, 1, "0100", "");
    expect_fill(told, 1, 1, "0000", "");
    expect_fill(told, 2, 1, "0001", "01");
    delivers(told, 2, 1, 0);
    result = expect_done(told, TARRY_OK);
    assert_int_equal(result->chunks_filled, 1);
    assert_float_equal(result->expected_error, 1, 0);
    assert_true(fabs(result->filled_share - 1.0 / 3) < 1e-12);
}

STORY(who_was_lost_in_between_has_nothing_left)
{
    two_finish(told);
    joins(told, 0); /* between the rounds, anew */
    at(told, 100);
    starts(told);
    is_lost(told, 1);
    passes(told, 150);
    expect_clear(told, 0);
    expect_fill(told, 0, 1, "0000", "");
    expect_fill(told, 2, 1, "0000", "");
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->chunks_filled, 0);
    assert_float_equal(result->filled_share, 0, 0);
}

/* Stripes that stand keep what filled them, also when the next attempt has less. */
STORY(each_stripe_has_its_own_share)
{
    plan(told, 2, 1, TARRY_FILL_STALE);
    told->settings.stripe_length = 8; /* of 10 numbers */
    story_begin(told);
    each_reports(told, 2, 0);
    told->expected = told->effects->count;
    each_delivers(told, 2, 1, 0);
    each_delivers(told, 2, 1, 1);
    expect_done(told, TARRY_OK);
    starts(told);
    passes(told, 50);
    told->expected = told->effects->count;
    each_delivers(told, 2, 1, 0);
    delivers(told, 0, 1, 1);
    is_lost(told, 1);
    expect_clear(told, 1);
    expect_signal(told, 0, 2, "1", "01");
    delivers(told, 0, 2, 1);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_int_equal(result->chunks_filled, 1);
    assert_true(fabs(result->filled_share - 0.9) < 1e-12);
    assert_float_equal(result->expected_error, 1, 1e-12);
}

/*
 * A late worker is set aside to see whether the sum is as good without it. With whole credit, one
 * that only fills has finished copies that don't count, and they still don't afterwards.
 */
STORY(a_late_one_that_fills_earns_no_credit)
{
    plan(told, 5, 2, TARRY_FILL_STALE);
    told->settings.credit = TARRY_CREDIT_WHOLE;
    story_begin(told);
    const uint32_t slots[][2] = {{1, 0}, {4, 0}, {4, 1}, {3, 0}, {3, 1},
                                 {0, 0}, {0, 1}, {2, 0}, {2, 1}};
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
        reports(told, slots[i][0], slots[i][1]);
    told->expected = told->effects->count;
    const uint32_t senders[] = {0, 2, 3, 4};
    for (size_t i = 0; i < 4; i++)
        delivers(told, senders[i], 1, 0);
    expect_done(told, TARRY_OK);

    at(told, 100);
    starts(told);
    reports(told, 0, 0);
    reports(told, 0, 1);
    reports(told, 2, 0); /* chunk 2, which nobody else had in the round before */
    passes(told, 150);
    told->expected = told->effects->count;
    at(told, 160);
    delivers(told, 0, 1, 0);
    delivers(told, 4, 1, 0);
    passes(told, 350); /* 2 and 3 are late, and needed */
    told->expected = told->effects->count;
    is_lost(told, 3);
    expect_clear(told, 0);
    expect_fill(told, 0, 2, "1010", "");
    expect_fill(told, 1, 2, "1001", "");
    expect_fill(told, 2, 2, "0110", "11");
    expect_fill(told, 4, 2, "0110", "10");
    told->expected = told->effects->count;
}

STORY(settings_are_checked_and_each_allocation_may_fail)
{
    story_plan(told, 3, 2);
    server_creation made = {told->plan, told->settings};
    made.settings.fill = (tarry_fill)3;
    assert_int_equal(create_server(&made, NULL), TARRY_ERROR_ARGUMENT);
    made.settings.fill = TARRY_FILL_STALE;
    assert_true(fail_each_allocation(create_server, &made) > 0);
}
