/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "edge_plan.h"
#include "plan/plan.h"
#include "story.h"
#include "test.h"

/* Workers 0 and 1 are as good as parallel; 0 and 2, and 1 and 2, are not. */
static const double ANGLES[] = {0, 1e-4, 1};

/* Worker j's column of R stands at the angle ANGLES[j]: two of them have the least singular value
 * sqrt(1 - cos(difference)), about the difference / sqrt(2). */
static void set_columns(tarry_plan *plan)
{
    double *decode = plan->decode;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        decode[worker] = cos(ANGLES[worker]);
        decode[plan->workers + worker] = sin(ANGLES[worker]);
    }
}

/* Three workers that all have all three chunks, two parts, two stripes; the limit is 1000. */
static void three_plan(story *told)
{
    story_plan(told, 3, 3);
    told->plan->parts = 2;
    edge_plan_random_decode(told->plan, 1);
    set_columns(told->plan);
    told->settings.stripe_length = 3;
}

static void finishes_all(story *told, uint32_t worker)
{
    for (uint32_t slot = 0; slot < 3; slot++)
        reports(told, worker, slot);
}

/* To all that are there, of chunks that have the same copies. */
static void expect_all_signals(story *told, uint32_t attempt, const char *psi, const char *stripes)
{
    for (uint32_t worker = 0; worker < 3; worker++)
        if (tarry_server_present(told->server, worker))
            expect_signal(told, worker, attempt, psi, stripes);
}

static void expect_clears(story *told)
{
    expect_clear(told, 0);
    expect_clear(told, 1);
}

static void two_deliver(story *told)
{
    each_delivers(told, 2, 1, 0);
    each_delivers(told, 2, 1, 1);
}

/* Workers 0 and 1 have computed all at 5 ms. */
static void two_finish(story *told)
{
    story_begin(told);
    at(told, 5);
    finishes_all(told, 0);
    finishes_all(told, 1);
}

/* The round is given up, and every chunk is named. */
static void expect_failure(story *told)
{
    expect_finish(told);
    assert_false(expect_done(told, TARRY_ERROR_COVERAGE)->exact);
    for (uint32_t chunk = 0; chunk < 3; chunk++)
        assert_int_equal(tarry_server_next_hopeless(told->server, chunk), chunk);
}

STORY(what_may_still_come_is_waited_for)
{
    three_plan(told);
    two_finish(told);
    expect_nothing(told); /* worker 2 may still make it good */
    at(told, 8);
    finishes_all(told, 2);
    expect_clears(told);
    expect_all_signals(told, 1, "111111111", "11");
    for (uint32_t stripe = 0; stripe < 2; stripe++)
        each_delivers(told, 3, 1, stripe);
    expect_exact(told);
}

STORY(when_nothing_better_can_come_the_round_fails)
{
    three_plan(told);
    two_finish(told);
    at(told, 6);
    is_lost(told, 2);
    expect_failure(told);
    /* The next round is as any. */
    at(told, 20);
    joins(told, 2);
    starts(told);
    at(told, 25);
    finishes_all(told, 0);
    expect_nothing(told);
}

STORY(a_larger_limit_takes_the_same_copies)
{
    three_plan(told);
    told->settings.conditioning_limit = 1e6;
    story_begin(told);
    at(told, 5);
    is_lost(told, 2);
    finishes_all(told, 0);
    finishes_all(told, 1);
    expect_clears(told);
    expect_all_signals(told, 1, "110110110", "11");
    two_deliver(told);
    expect_exact(told);
}

/* Columns that are parallel to rounding are of rank one by any limit. */
STORY(no_limit_makes_parallel_columns_independent)
{
    three_plan(told);
    told->settings.conditioning_limit = 1e6;
    for (uint32_t row = 0; row < 2; row++)
        told->plan->decode[row * 3 + 1] = told->plan->decode[row * 3] * (1 + 1e-9 * row);
    two_finish(told);
    is_lost(told, 2);
    expect_failure(told);
}

/* One stripe is complete, and the copies that are left do not make another attempt. */
STORY(an_attempt_that_broke_is_not_repeated_without_a_rank)
{
    three_plan(told);
    two_finish(told);
    finishes_all(told, 2);
    expect_clears(told);
    expect_all_signals(told, 1, "111111111", "11");
    each_delivers(told, 3, 1, 0);
    at(told, 6);
    is_lost(told, 2);
    expect_failure(told);
}

STORY(with_a_reproducible_sum_all_are_waited_for)
{
    three_plan(told);
    told->settings.reproducible = true;
    story_begin(told);
    at(told, 5);
    is_lost(told, 1);
    finishes_all(told, 2);
    reports(told, 0, 0);
    reports(told, 0, 1);
    expect_nothing(told);
    reports(told, 0, 2);
    expect_clears(told);
    expect_all_signals(told, 1, "101101101", "11");
}

STORY(a_deadline_takes_what_there_is)
{
    three_plan(told);
    told->settings.stop = TARRY_STOP_DEADLINE;
    told->settings.deadline_ns = 10 * STORY_MS;
    story_begin(told);
    at(told, 5);
    finishes_all(told, 0);
    reports(told, 1, 0);
    passes(told, 10);
    expect_clears(told);
    /* Chunk 1 has two copies, which count as one; each worker's order begins elsewhere. */
    static const char *const psi[] = {"100110100", "110100100", "100100110"};
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal(told, worker, 1, psi[worker], "11");
    two_deliver(told);
    const tarry_round_result *result = expect_done(told, TARRY_OK);
    assert_true(fabs(result->expected_error - 3.0 / 6) < 1e-12 && !result->exact);
}

TEST(a_limit_of_the_error_takes_what_there_is)
{
    for (int allowed = 0; allowed < 2; allowed++) {
        story told;
        three_plan(&told);
        told.settings.stop = TARRY_STOP_ERROR;
        told.settings.error_limit = allowed ? 0.5 : 0.4;
        story_begin(&told);
        at(&told, 5);
        is_lost(&told, 2);
        finishes_all(&told, 0); /* rank 1 of 2 in all chunks: an error of 1/2 */
        if (!allowed) {
            expect_nothing(&told);
            finishes_all(&told, 1);
        }
        expect_clears(&told);
        expect_all_signals(&told, 1, allowed ? "100100100" : "110110110", "11");
        if (!allowed) {
            two_deliver(&told);
            const tarry_round_result *result = expect_done(&told, TARRY_OK);
            assert_true(fabs(result->expected_error - 0.5) < 1e-12 && !result->exact);
        }
        story_end(&told);
    }
}
