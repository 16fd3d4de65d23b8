/* SPDX-License-Identifier: Apache-2.0 */
/* What messages wait besides their latency. */
#include <math.h>

#include "base/quantile.h"
#include "sim/links/network.h"
#include "test.h"

enum { DRAWS = 20000, MEAN_NS = 1000000 };

static jitter make(uint64_t seed, double spread)
{
    const tarry_sim_settings settings = {.link = {.jitter_ns = MEAN_NS, .jitter_spread = spread},
                                         .seed = seed};
    return jitter_make(&settings);
}

TEST(draws_have_their_mean_and_deviation)
{
    jitter tested = make(1, 0.5);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        double drawn = (double)jitter_draw(&tested);
        sum += drawn;
        squares += drawn * drawn;
    }
    const double mean = sum / DRAWS, deviation = sqrt(squares / DRAWS - mean * mean);
    /* Within 4 standard errors. */
    assert_true(fabs(mean / MEAN_NS - 1) < 4 * 0.5 / sqrt(DRAWS));
    assert_true(fabs(deviation / (0.5 * MEAN_NS) - 1) < 0.05);
    assert_true(jitter_most(&tested) > 10 * MEAN_NS);
}

TEST(draws_follow_the_seed)
{
    jitter one = make(1, 1), same = make(1, 1), other = make(2, 1), none = make(1, 0);
    uint32_t differ = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t drawn = jitter_draw(&one);
        assert_int_equal(drawn, jitter_draw(&same));
        differ += drawn != jitter_draw(&other);
        assert_int_equal(jitter_draw(&none), MEAN_NS);
    }
    assert_true(differ > 90);
}

TEST(without_jitter_nothing_waits)
{
    const tarry_sim_settings settings = {.link = {.jitter_spread = 1}, .seed = 1};
    jitter tested = jitter_make(&settings);
    assert_int_equal(jitter_draw(&tested), 0);
    assert_int_equal(jitter_most(&tested), 0);
    assert_int_equal(jitter_longest(&tested, 5), 0);
}

/* Beside the longest of as many draws, one by one. */
TEST(the_longest_of_many_is_that_of_its_draws)
{
    static const uint64_t counts[] = {1, 2, 30, 1000};
    enum { TRIALS = 2000 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        jitter drawn = make(3, 0.5), at_once = make(4, 0.5);
        double oracle[TRIALS], tested[TRIALS];
        for (int trial = 0; trial < TRIALS; trial++) {
            uint64_t longest = 0;
            for (uint64_t k = 0; k < counts[i]; k++)
                longest = network_later(longest, jitter_draw(&drawn));
            oracle[trial] = (double)longest;
            tested[trial] = (double)jitter_longest(&at_once, counts[i]);
        }
        for (double share = 0.1; share < 1; share += 0.2)
            assert_true(
                fabs(quantile_of(tested, TRIALS, share) / quantile_of(oracle, TRIALS, share) - 1) <
                0.06);
        jitter none = make(1, 0.5);
        assert_int_equal(jitter_longest(&none, 0), 0);
    }
}

/* A message waits, and the one behind it does not wait for it on the card. */
TEST(a_wait_holds_up_no_card)
{
    const tarry_sim_settings settings = {
        .link = {.latency_ns = 1000, .bytes_per_second = 1e8, .jitter_ns = MEAN_NS},
        .server_bytes_per_second = INFINITY};
    network tested;
    uint64_t first_ns;
    assert_ok(network_init(&tested, &settings, 1, NULL));
    assert_int_equal(network_hop(&tested), 1000 + MEAN_NS);
    assert_int_equal(star_up(&tested, 0, 0, 50, &first_ns), 500 + MEAN_NS);
    assert_int_equal(first_ns, 1000 + MEAN_NS);
    assert_int_equal(star_up(&tested, 0, 0, 50, &first_ns), 1000 + MEAN_NS);
    assert_int_equal(first_ns, 1500 + MEAN_NS);
    assert_int_equal(star_down(&tested, 0, 0, 50), 500 + 1000 + MEAN_NS);
    network_destroy(&tested);
}
