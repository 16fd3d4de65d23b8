/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sim/links/network.h"
#include "test.h"

OWNED_STRUCT_BY(network, network_destroy)

/* The links of three workers. */
static network make(tarry_sim_link link, double server_bytes_per_second)
{
    const tarry_sim_settings settings = {.link = link,
                                         .server_bytes_per_second = server_bytes_per_second};
    network made;
    assert_ok(network_init(&made, &settings, 3, NULL));
    return made;
}

/* One byte takes 10 ns on a link; latency 1,000 ns. */
static network slow_links(double server_bytes_per_second)
{
    return make((tarry_sim_link){.latency_ns = 1000, .bytes_per_second = 1e8},
                server_bytes_per_second);
}

TEST(without_limits_only_latency_counts)
{
    OWNED(network)
    tested = make((tarry_sim_link){.latency_ns = 7, .bytes_per_second = INFINITY}, INFINITY);
    uint64_t first_ns;
    assert_true(star_card_is_free(&tested));
    assert_int_equal(star_down(&tested, 0, 100, UINT64_MAX), 107);
    assert_int_equal(star_up(&tested, 0, 100, UINT64_MAX, &first_ns), 100);
    assert_int_equal(first_ns, 107);
}

TEST(messages_on_a_link_follow_each_other)
{
    OWNED(network) tested = slow_links(INFINITY);
    uint64_t first_ns;
    assert_int_equal(star_down(&tested, 0, 0, 50), 500 + 1000);
    assert_int_equal(star_down(&tested, 0, 100, 20), 500 + 200 + 1000);
    assert_int_equal(star_down(&tested, 1, 100, 20), 100 + 200 + 1000);
    assert_int_equal(star_down(&tested, 0, 5000, 1), 5000 + 10 + 1000);
    /* The other way is free meanwhile. */
    assert_int_equal(star_up(&tested, 0, 0, 50, &first_ns), 500);
    assert_int_equal(first_ns, 1000);
    assert_int_equal(star_up(&tested, 0, 100, 20, &first_ns), 700);
    assert_int_equal(first_ns, 1500);
}

TEST(all_share_the_card_on_the_way_out)
{
    OWNED(network) tested = slow_links(2e8); /* 5 ns per byte: two links fill it */
    assert_false(star_card_is_free(&tested));
    assert_int_equal(star_down(&tested, 0, 0, 100), 0 + 1000 + 1000);
    assert_int_equal(star_down(&tested, 1, 0, 100), 500 + 1000 + 1000);
    assert_int_equal(star_down(&tested, 2, 0, 100), 1000 + 1000 + 1000);
    /* A card slower than the links decides when the last byte passes. */
    OWNED(network) narrow = slow_links(5e7); /* 20 ns per byte */
    assert_int_equal(star_down(&narrow, 0, 0, 100), 2000 + 1000);
    assert_int_equal(star_down(&narrow, 1, 0, 100), 4000 + 1000);
    assert_int_equal(star_down(&narrow, 0, 0, 1), 4020 + 1000);
}

/* What begins together ends together, when the last would; the few bytes between them don't wait.
 */
TEST(what_shares_the_card_is_there_at_the_same_time)
{
    const tarry_sim_settings settings = {.link = {.latency_ns = 1000, .bytes_per_second = 1e8},
                                         .server_bytes_per_second = 5e7,
                                         .card_shared = true};
    enum { LARGE = 100000 };
    OWNED(network) tested;
    assert_ok(network_init(&tested, &settings, 3, NULL));
    star_share(&tested, 0, 2, LARGE);
    assert_int_equal(star_down(&tested, 0, 0, LARGE), 2 * 20 * LARGE + 1000);
    assert_true(star_down(&tested, 2, 0, 10) < 20 * LARGE);
    assert_int_equal(star_down(&tested, 1, 0, LARGE), 2 * 20 * LARGE + 1000);
    /* The next one has the card for itself, behind them. */
    assert_int_equal(star_down(&tested, 2, 0, LARGE), 3 * 20 * LARGE + 10 * 20 + 1000);
}

TEST(all_share_the_card_on_the_way_in)
{
    OWNED(network) tested = slow_links(5e7);
    uint64_t first_a, first_b;
    uint64_t left_a = star_up(&tested, 0, 0, 100, &first_a);
    uint64_t left_b = star_up(&tested, 1, 300, 100, &first_b);
    assert_int_equal(left_a, 1000);
    assert_int_equal(left_b, 1300);
    assert_int_equal(first_a, 1000);
    assert_int_equal(first_b, 1300);
    assert_int_equal(star_receive(&tested, first_a, 100, left_a), 1000 + 2000);
    assert_int_equal(star_receive(&tested, first_b, 100, left_b), 1000 + 4000);
    /* A card faster than the link waits for the last byte. */
    OWNED(network) wide = slow_links(1e9);
    assert_int_equal(star_receive(&wide, first_a, 100, left_a), 1000 + 1000);
    assert_int_equal(wide.server.in.free_ns, 1100);
}

/* A card of 20 ns per byte has 100,000 bytes for a worker, and a few for others. */
TEST(small_messages_pass_the_card_by_large_ones)
{
    OWNED(network) tested = slow_links(5e7);
    const uint64_t large = 100000;
    assert_int_equal(star_down(&tested, 0, 0, large), 2000000 + 1000);
    assert_int_equal(star_down(&tested, 1, 100, 10), 100 + 200 + 1000);
    assert_int_equal(star_down(&tested, 2, 150, 10), 300 + 200 + 1000);
    /* On its own link nothing passes by; the next large one is later by what the small ones took.
     */
    assert_int_equal(star_down(&tested, 0, 300, 10), 2000000 + 1000 + 100);
    assert_int_equal(star_down(&tested, 1, 0, large), 2000000 + 3 * 200 + 2000000 + 1000);
    uint64_t first_a, first_b;
    uint64_t left_a = star_up(&tested, 0, 0, large, &first_a);
    uint64_t left_b = star_up(&tested, 1, 300, 10, &first_b);
    assert_int_equal(star_receive(&tested, first_a, large, left_a), 1000 + 2000000);
    assert_int_equal(star_receive(&tested, first_b, 10, left_b), 300 + 1000 + 200);
}

TEST(time_does_not_run_over)
{
    OWNED(network) tested = slow_links(1e-300);
    assert_true(star_down(&tested, 0, 5, 1) == TARRY_NEVER);
    assert_true(star_down(&tested, 0, 6, 1) == TARRY_NEVER);
    assert_true(star_receive(&tested, 9, 1, TARRY_NEVER) == TARRY_NEVER);
    assert_true(network_after(TARRY_NEVER, 0) == TARRY_NEVER);
    assert_true(network_after(1, TARRY_NEVER - 1) == TARRY_NEVER);
    assert_true(network_after(1, TARRY_NEVER - 2) == TARRY_NEVER - 1);
}
