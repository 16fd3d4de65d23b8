/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "edge_plan.h"
#include "plan/plan.h"
#include "story.h"

/* Workers 0 and 1 are as good as parallel; 0 and 2, and 1 and 2, are not. */
static const double ANGLES[] = {0, 1e-4, 1};

/* Worker j's column of R stands at the angle ANGLES[j]: two of them have the least singular value
 * sqrt(1 - cos(difference)), about the difference / sqrt(2). */
static void set_columns(tarry_plan *plan)
{
    double *decode = plan->decode + plan_decode_rows(plan, 2) * plan->workers;
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

static void expect_signal_with(story *told, uint32_t worker, uint32_t attempt, const char *psi,
                               const char *stripes, double limit)
{
    expect_signal(told, worker, attempt, psi, stripes);
    assert_true(told->effects->items[told->expected - 1].message.limit == limit);
}

/* To all that are there, of chunks that have the same copies. */
static void expect_signals(story *told, uint32_t attempt, const char *psi, const char *stripes,
                           double limit)
{
    for (uint32_t worker = 0; worker < 3; worker++)
        if (tarry_server_present(told->server, worker))
            expect_signal_with(told, worker, attempt, psi, stripes, limit);
}

static void expect_clears(story *told)
{
    expect_clear(told, 0);
    expect_clear(told, 1);
}

static void two_deliver(story *told, uint32_t one, uint32_t other, uint32_t attempt)
{
    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        delivers(told, one, attempt, stripe);
        delivers(told, other, attempt, stripe);
    }
}

static void assert_raised(const tarry_round_result *result)
{
    double inverse = 1 / sqrt(1 - cos(ANGLES[1] - ANGLES[0]));
    assert_false(result->exact);
    assert_true(result->expected_error == 0);
    assert_true(fabs(result->conditioning / inverse - 1) < 1e-6);
    /* 3 x 2 terms at a worker, 3 at the server, and 4; R has the Frobenius norm sqrt(2). */
    double terms = 13 * ldexp(1, -24), least = sqrt(2) * inverse * terms;
    assert_true(result->error_bound > 0.99 * least && result->error_bound < 1.01 * least);
}

static void assert_usual(const tarry_round_result *result)
{
    assert_true(result->exact && result->conditioning == 0 && result->error_bound == 0);
}

static void what_may_still_come_is_waited_for(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    expect_nothing(&told); /* worker 2 may still make it good */
    at(&told, 8);
    reports(&told, 2, 0);
    reports(&told, 2, 1);
    reports(&told, 2, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "111111111", "11", 0);
    for (uint32_t stripe = 0; stripe < 2; stripe++)
        for (uint32_t worker = 0; worker < 3; worker++)
            delivers(&told, worker, 1, stripe);
    assert_usual(expect_done(&told, TARRY_OK));
    story_end(&told);
}

static void when_nothing_better_can_come_the_limit_is_raised(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    at(&told, 6);
    is_lost(&told, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
    two_deliver(&told, 0, 1, 1);
    assert_raised(expect_done(&told, TARRY_OK));
    /* The next round begins with the usual limit. */
    at(&told, 20);
    joins(&told, 2);
    starts(&told);
    at(&told, 25);
    finishes_all(&told, 0);
    expect_nothing(&told);
    story_end(&told);
}

/* Begins a round that samples one chunk of three, which it gives back. */
static uint32_t begin_with_one_sampled(story *told)
{
    for (uint64_t seed = 1;; seed++) {
        three_plan(told);
        told->settings.sample_chunks = 1;
        told->settings.sample_seed = seed;
        story_begin(told);
        uint32_t sampled = 0, which = 0;
        for (uint32_t chunk = 0; chunk < 3; chunk++) {
            if (tarry_server_weight(told->server, chunk) == 0)
                continue;
            sampled++;
            which = chunk;
        }
        if (sampled == 1)
            return which;
        told->expected = told->effects->count; /* of a round of none, which is over */
        story_end(told);
    }
}

/* What counts three times is three times as far off, and was rounded once more. */
static void the_bound_is_of_what_the_chunks_count(void **state)
{
    (void)state;
    story told;
    uint32_t chunk = begin_with_one_sampled(&told);
    assert_true(tarry_server_weight(told.server, chunk) == 3);
    at(&told, 5);
    reports(&told, 0, chunk); /* worker j has chunk j first */
    reports(&told, 1, (chunk + 2) % 3);
    at(&told, 6);
    is_lost(&told, 2);
    told.expected = told.effects->count;
    two_deliver(&told, 0, 1, 1);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    double terms = 14 * ldexp(1, -24), inverse = 1 / sqrt(1 - cos(ANGLES[1] - ANGLES[0]));
    assert_true(fabs(result->conditioning / inverse - 1) < 1e-6);
    assert_true(fabs(result->error_bound / (3 * sqrt(2) * inverse * terms) - 1) < 0.01);
    story_end(&told);
}

/* Two chunks are ill, of the third copies may still come: only then nothing better can. */
static void other_chunks_are_waited_for(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    reports(&told, 1, 0);
    reports(&told, 1, 1);
    at(&told, 6);
    is_lost(&told, 2);
    expect_nothing(&told);
    at(&told, 7);
    reports(&told, 1, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
    story_end(&told);
}

static void a_deficient_chunk_still_fails(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    at(&told, 6);
    is_lost(&told, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
    at(&told, 7);
    is_lost(&told, 1);
    expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    const tarry_round_result *result = expect_done(&told, TARRY_ERROR_COVERAGE);
    assert_true(!result->exact && result->conditioning == 0 && result->error_bound == 0);
    assert_int_equal(tarry_server_next_hopeless(told.server, 0), 0);
    story_end(&told);
}

/* Columns that are parallel to rounding are of rank one by any limit. */
static void no_limit_makes_parallel_columns_independent(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    for (uint32_t row = 0; row < 2; row++)
        told.plan->decode[row * 3 + 1] = told.plan->decode[row * 3] * (1 + 1e-9 * row);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    is_lost(&told, 2);
    expect_send(&told, 0, TARRY_MESSAGE_FINISH);
    expect_send(&told, 1, TARRY_MESSAGE_FINISH);
    expect_done(&told, TARRY_ERROR_COVERAGE);
    story_end(&told);
}

/* A worker is back before its attempt broke: the next attempt needs no raised limit, and a stripe
 * that is complete stands with what it has. */
static void a_new_attempt_has_a_limit_of_its_own(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    at(&told, 6);
    is_lost(&told, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
    delivers(&told, 0, 1, 0);
    delivers(&told, 1, 1, 0);
    at(&told, 7);
    joins(&told, 2);
    expect_send(&told, 2, TARRY_MESSAGE_ROUND);
    told.epoch = 2;
    finishes_all(&told, 2);
    expect_nothing(&told);
    at(&told, 8);
    is_lost(&told, 1);
    expect_clear(&told, 1);
    expect_signals(&told, 2, "101101101", "01", 0);
    told.epoch = 1;
    delivers(&told, 0, 2, 1);
    told.epoch = 2;
    delivers(&told, 2, 2, 1);
    assert_raised(expect_done(&told, TARRY_OK)); /* stripe 0 has its error still */
    story_end(&told);
}

static void with_a_reproducible_sum_all_are_waited_for(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    told.settings.reproducible = true;
    story_begin(&told);
    at(&told, 5);
    is_lost(&told, 2);
    finishes_all(&told, 1);
    reports(&told, 0, 0);
    reports(&told, 0, 1);
    expect_nothing(&told);
    reports(&told, 0, 2);
    expect_clears(&told);
    expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
    story_end(&told);
}

/* One part needs no more than one copy: fewer parts do without. */
static void fewer_parts_come_before_a_raised_limit(void **state)
{
    (void)state;
    story told;
    story_plan(&told, 3, 3);
    told.plan->parts = 2;
    told.plan->adaptive = true;
    edge_plan_random_decode(told.plan, 1);
    set_columns(told.plan);
    told.settings.reproducible = true;
    story_begin(&told);
    at(&told, 5);
    is_lost(&told, 2);
    finishes_all(&told, 0);
    finishes_all(&told, 1);
    expect_clear(&told, 0);
    for (uint32_t worker = 0; worker < 2; worker++) {
        const tarry_message *signal = expect_send(&told, worker, TARRY_MESSAGE_SIGNAL);
        assert_true(signal->parts == 1 && signal->limit == 0);
    }
    story_end(&told);
}

static void a_deadline_takes_what_there_is_with_a_raised_limit(void **state)
{
    (void)state;
    story told;
    three_plan(&told);
    told.settings.stop = TARRY_STOP_DEADLINE;
    told.settings.deadline_ns = 10 * STORY_MS;
    story_begin(&told);
    at(&told, 5);
    finishes_all(&told, 0);
    reports(&told, 1, 0);
    at(&told, 10);
    time_passes(&told);
    expect_clears(&told);
    /* Chunk 1 has two copies, which count as one without; each worker's order begins elsewhere. */
    static const char *const psi[] = {"100110100", "110100100", "100100110"};
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal_with(&told, worker, 1, psi[worker], "11", TARRY_CONDITIONING_MOST);
    two_deliver(&told, 0, 1, 1);
    const tarry_round_result *result = expect_done(&told, TARRY_OK);
    assert_true(fabs(result->expected_error - 2.0 / 6) < 1e-12 && result->conditioning > 1e4);
    story_end(&told);
}

static void a_limit_of_the_error_is_met_without_if_it_can_be(void **state)
{
    (void)state;
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
            finishes_all(&told, 1);
            expect_clears(&told);
            expect_signals(&told, 1, "110110110", "11", TARRY_CONDITIONING_MOST);
            two_deliver(&told, 0, 1, 1);
            assert_raised(expect_done(&told, TARRY_OK));
        } else {
            expect_clears(&told);
            expect_signals(&told, 1, "100100100", "11", 0);
        }
        story_end(&told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_still_come_is_waited_for),
        cmocka_unit_test(when_nothing_better_can_come_the_limit_is_raised),
        cmocka_unit_test(the_bound_is_of_what_the_chunks_count),
        cmocka_unit_test(other_chunks_are_waited_for),
        cmocka_unit_test(a_deficient_chunk_still_fails),
        cmocka_unit_test(no_limit_makes_parallel_columns_independent),
        cmocka_unit_test(a_new_attempt_has_a_limit_of_its_own),
        cmocka_unit_test(with_a_reproducible_sum_all_are_waited_for),
        cmocka_unit_test(fewer_parts_come_before_a_raised_limit),
        cmocka_unit_test(a_deadline_takes_what_there_is_with_a_raised_limit),
        cmocka_unit_test(a_limit_of_the_error_is_met_without_if_it_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
