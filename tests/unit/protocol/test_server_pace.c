/* SPDX-License-Identifier: Apache-2.0 */
/* How fast workers are, as their reports tell where they go by the plan's order. */
#include <math.h>

#include "protocol/steering/pace.h"
#include "story.h"
#include "test.h"

static double pace_ms(const story *told, uint32_t worker)
{
    return tarry_server_pace_ns(told->server, worker) / (double)STORY_MS;
}

static void assert_pace(const story *told, uint32_t worker, double ms)
{
    assert_true(fabs(pace_ms(told, worker) - ms) < 1e-9);
}

static void expect_all(story *told)
{
    told->expected = told->effects->count;
}

STORY(time_per_chunk)
{
    story_play(told, 4, 3);
    at(told, 10);
    reports(told, 0, 0);
    assert_pace(told, 0, 10);
    at(told, 14);
    reports(told, 0, 1);
    assert_pace(told, 0, 7);
    /* Two that come together were not computed in no time. */
    at(told, 40);
    reports(told, 1, 0);
    reports(told, 1, 1);
    assert_pace(told, 1, 20);
    assert_pace(told, 2, 0);
}

/* What it failed is no chunk that it finished, and took its time. */
STORY(failures_are_left_aside)
{
    story_play(told, 4, 3);
    at(told, 10);
    reports(told, 0, 0);
    at(told, 25);
    fails(told, 0, 1);
    assert_pace(told, 0, 10);
    at(told, 31);
    reports(told, 0, 2);
    assert_pace(told, 0, 8);
}

/* Between the signal and RESUME nobody computes. */
STORY(waiting_is_no_work)
{
    story_play(told, 3, 2);
    at(told, 5);
    each_reports(told, 3, 0);
    expect_all(told);
    at(told, 105);
    is_lost(told, 2);
    expect_resume(told, 0, "00");
    expect_resume(told, 1, "01");
    at(told, 112);
    reports(told, 1, 1);
    expect_all(told);
    assert_pace(told, 1, 6);
}

STORY(earlier_rounds_count_as_one_chunk)
{
    story_play(told, 2, 2);
    at(told, 10);
    reports(told, 0, 0);
    at(told, 20);
    reports(told, 0, 1);
    expect_all(told);
    delivers(told, 0, 1, 0);
    expect_done(told, TARRY_OK);
    assert_pace(told, 0, 10);
    at(told, 100);
    starts(told);
    at(told, 130);
    reports(told, 0, 0);
    assert_pace(told, 0, (PACE_PAST * 10 + 30) / (PACE_PAST + 1));
    /* It is the same worker when it comes again. */
    double known = pace_ms(told, 0);
    joins(told, 0);
    expect_all(told);
    assert_pace(told, 0, known);
}
