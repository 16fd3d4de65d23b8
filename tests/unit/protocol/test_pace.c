/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "protocol/steering/pace.h"
#include "test.h"

static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-12 * fabs(expected));
}

TEST(nothing_is_known_at_first)
{
    pace of = {0};
    assert_near(pace_of(&of, 0, 0, 0), 0);
    assert_near(pace_of(&of, 0, 1, 100), 0);
    assert_near(pace_of(&of, 40, 0, 0), 40); /* what the others take */
    pace_add(&of, 2, 100, 0);
    assert_near(pace_of(&of, 0, 0, 0), 50);
    assert_near(pace_of(&of, 25, 0, 0), (PACE_PRIOR * 25 + 100) / (PACE_PRIOR + 2));
}

TEST(earlier_rounds_count_as_a_few_chunks)
{
    pace of = {.past = 10};
    assert_near(pace_of(&of, 1000, 0, 0), 10); /* others don't matter then */
    double wrong = 10;
    for (int chunk = 0; chunk < 9; chunk++) {
        pace_add(&of, 1, 40, pace_of(&of, 0, 0, 0));
        assert_true(pace_of(&of, 0, 0, 0) > wrong);
        wrong = pace_of(&of, 0, 0, 0);
    }
    assert_near(wrong, (PACE_PAST * 10 + 9 * 40) / (PACE_PAST + 9));
    pace_end_round(&of, wrong);
    assert_near(of.past, wrong);
    assert_near(pace_of(&of, 0, 0, 0), wrong);
    assert_true(of.cost == 0 && of.ns == 0);
}

TEST(a_chunk_that_takes_long_counts_before_its_end)
{
    const pace of = {.past = 10};
    assert_near(pace_of(&of, 0, 1, 9), 10);
    assert_near(pace_of(&of, 0, 2, 19), 10); /* a dear one may take longer */
    double before = 10;
    for (double elapsed = 12; elapsed < 1e6; elapsed *= 2) {
        double now = pace_of(&of, 0, 1, elapsed);
        assert_near(now, (PACE_PAST * 10 + 2 * elapsed) / (PACE_PAST + 1));
        assert_true(now > before);
        before = now;
    }
}

TEST(an_outlier_counts_for_so_much_only)
{
    pace of = {.past = 10};
    pace_add(&of, 1, 1e9, 10);
    assert_near(of.ns, PACE_OUTLIER * 10);
    pace_add(&of, 2, 1e9, 10);
    assert_near(of.ns, PACE_OUTLIER * 30);
    pace unknown = {0};
    pace_add(&unknown, 1, 1e9, 0); /* there is nothing to compare it with */
    assert_near(unknown.ns, 1e9);
}
