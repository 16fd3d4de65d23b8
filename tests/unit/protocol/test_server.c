/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "creation.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "story.h"
#include "test.h"

TEST(settings_are_checked)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(3, 3, 2, 1);
    tarry_server_settings good;
    tarry_server_settings_init(&good);
    assert_refused(plan, &good, "dimension");
    good.dimension = 100;

    tarry_server_settings bad = good;
    bad.stripe_length = 0;
    assert_refused(plan, &bad, "stripe_length");
    bad = good;
    bad.dimension = SIZE_MAX;
    assert_refused(plan, &bad, "dimension");
    bad.dimension = (size_t)1 << 40;
    bad.stripe_length = 1;
    assert_refused(plan, &bad, "stripe_length");
    const double limits[] = {1, 0, -1, NAN};
    for (size_t i = 0; i < 4; i++) {
        bad = good;
        bad.conditioning_limit = limits[i];
        assert_refused(plan, &bad, "conditioning_limit");
    }
    bad = good;
    bad.silence_ns = 0;
    assert_refused(plan, &bad, "silence_ns");
    bad = good;
    bad.stop = TARRY_STOP_DEADLINE;
    assert_refused(plan, &bad, "deadline");
    bad.deadline_ns = 1;
    bad.reproducible = true;
    assert_refused(plan, &bad, "reproducible");
    bad = good;
    bad.stop = TARRY_STOP_ERROR;
    const double errors[] = {-0.1, 1.1, NAN};
    for (size_t i = 0; i < 3; i++) {
        bad.error_limit = errors[i];
        assert_refused(plan, &bad, "error_limit");
    }
    bad = good;
    bad.stop = TARRY_STOP_WORKERS;
    assert_refused(plan, &bad, "workers");
    bad.workers_needed = 4;
    assert_refused(plan, &bad, "workers");
    bad = good;
    bad.stop = (tarry_stop)17;
    assert_refused(plan, &bad, "stop must be");
    bad = good;
    bad.credit = (tarry_credit)2;
    assert_refused(plan, &bad, "credit");
    bad = good;
    bad.sum = TARRY_SUM_EVERYWHERE;
    bad.compress_down = TARRY_COMPRESS_INT4;
    assert_refused(plan, &bad, "compress_down");
    bad.compress_down = TARRY_COMPRESS_NONE;
    bad.compress = TARRY_COMPRESS_INT4;
    assert_refused(plan, &bad, "sum");
}

/* Without an effect too many for the room there is: the server asserts it. */
STORY(the_smallest_settings_work)
{
    story_plan(told, 1, 1);
    told->settings.dimension = told->settings.stripe_length = 1;
    told->settings.silence_ns = 1; /* probes whenever it is called */
    told->server = server_make(told->plan, &told->settings);
    joins(told, 0);
    happens(told, &(tarry_event){.type = TARRY_EVENT_START});
    expect_send(told, 0, TARRY_MESSAGE_ROUND);
    expect_send(told, 0, TARRY_MESSAGE_PROBE);
    reports(told, 0, 0);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1", "1");
    delivers(told, 0, 1, 0);
    expect_exact(told);
}

/* A worker without chunks has nothing to do; it counts as done. */
STORY(a_worker_without_chunks_is_no_obstacle)
{
    const edge edges[] = {{0, 0}};
    story_plan(told, 1, 1);
    tarry_plan_free(told->plan);
    told->plan = edge_plan_make(2, 1, 1, edges, 1, NULL);
    told->settings.stop = TARRY_STOP_WORKERS;
    told->settings.workers_needed = 2;
    story_begin(told);
    reports(told, 1, 0);
    expect_reject(told, 1, TARRY_REJECT_RANGE);
    reports(told, 0, 0);
    expect_clear(told, 0);
    expect_signal(told, 0, 1, "1", "1");
    expect_signal(told, 1, 1, "", "1");
    delivers(told, 0, 1, 0);
    expect_exact(told);
}

/* With two parts a chunk needs two copies whose columns of R differ enough. */
STORY(with_two_parts_a_chunk_needs_two_copies)
{
    story_plan(told, 3, 2);
    told->plan->parts = 2;
    edge_plan_random_decode(told->plan, 1);
    story_begin(told);
    each_reports(told, 3, 0);
    each_reports(told, 3, 1);
    expect_clear(told, 0);
    for (uint32_t worker = 0; worker < 3; worker++)
        expect_signal(told, worker, 1, "1111", "1");
    story_end(told);

    /* Workers 0 and 1 have the same column:
     * chunk 1 can't be recovered although both copies come. */
    story_plan(told, 3, 2);
    told->plan->parts = 2;
    edge_plan_random_decode(told->plan, 1);
    for (uint32_t part = 0; part < 2; part++)
        told->plan->decode[part * 3] = told->plan->decode[part * 3 + 1];
    story_begin(told);
    reports(told, 0, 1);
    reports(told, 1, 0);
    expect_each(told, 3, TARRY_MESSAGE_FINISH);
    const tarry_round_result *result = expect_done(told, TARRY_ERROR_COVERAGE);
    assert_int_equal(result->parts, 2);
    assert_int_equal(result->copies_needed, 6);
    assert_float_equal(result->expected_error, 5.0 / 6, 1e-15);
    assert_int_equal(tarry_server_next_hopeless(told->server, 0), 1);
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(4, 5, 3, 2);
    edge_plan_random_decode(plan, 1);
    server_creation made = {.plan = plan};
    tarry_server_settings_init(&made.settings);
    made.settings.dimension = 1000;
    made.settings.stripe_length = 10;
    assert_true(fail_each_allocation(create_server, &made) > 10);
    tarry_server_free(NULL);
}
