/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "sim/network.h"

/* One byte takes 10 ns on a link; latency 1,000 ns. */
static network slow_links(double server_bytes_per_second)
{
    return network_make(&(tarry_sim_link){.latency_ns = 1000, .bytes_per_second = 1e8},
                        server_bytes_per_second);
}

static void without_limits_only_latency_counts(void **state)
{
    (void)state;
    network tested =
        network_make(&(tarry_sim_link){.latency_ns = 7, .bytes_per_second = INFINITY}, INFINITY);
    network_link link = {0};
    uint64_t first_ns;
    assert_true(network_card_is_free(&tested));
    assert_int_equal(network_down(&tested, &link, 100, UINT64_MAX), 107);
    assert_int_equal(network_up(&tested, &link, 100, UINT64_MAX, &first_ns), 100);
    assert_int_equal(first_ns, 107);
}

static void messages_on_a_link_follow_each_other(void **state)
{
    (void)state;
    network tested = slow_links(INFINITY);
    network_link link = {0}, other = {0};
    uint64_t first_ns;
    assert_int_equal(network_down(&tested, &link, 0, 50), 500 + 1000);
    assert_int_equal(network_down(&tested, &link, 100, 20), 500 + 200 + 1000);
    assert_int_equal(network_down(&tested, &other, 100, 20), 100 + 200 + 1000);
    assert_int_equal(network_down(&tested, &link, 5000, 1), 5000 + 10 + 1000);
    /* The other way is free meanwhile. */
    assert_int_equal(network_up(&tested, &link, 0, 50, &first_ns), 500);
    assert_int_equal(first_ns, 1000);
    assert_int_equal(network_up(&tested, &link, 100, 20, &first_ns), 700);
    assert_int_equal(first_ns, 1500);
}

static void all_share_the_card_on_the_way_out(void **state)
{
    (void)state;
    network tested = slow_links(2e8); /* 5 ns per byte: two links fill it */
    network_link a = {0}, b = {0}, c = {0};
    assert_false(network_card_is_free(&tested));
    assert_int_equal(network_down(&tested, &a, 0, 100), 0 + 1000 + 1000);
    assert_int_equal(network_down(&tested, &b, 0, 100), 500 + 1000 + 1000);
    assert_int_equal(network_down(&tested, &c, 0, 100), 1000 + 1000 + 1000);
    /* A card slower than the links decides when the last byte passes. */
    network narrow = slow_links(5e7); /* 20 ns per byte */
    network_link d = {0}, e = {0};
    assert_int_equal(network_down(&narrow, &d, 0, 100), 2000 + 1000);
    assert_int_equal(network_down(&narrow, &e, 0, 100), 4000 + 1000);
    assert_int_equal(network_down(&narrow, &d, 0, 1), 4020 + 1000);
}

static void all_share_the_card_on_the_way_in(void **state)
{
    (void)state;
    network tested = slow_links(5e7);
    network_link a = {0}, b = {0};
    uint64_t first_a, first_b;
    uint64_t left_a = network_up(&tested, &a, 0, 100, &first_a);
    uint64_t left_b = network_up(&tested, &b, 300, 100, &first_b);
    assert_int_equal(left_a, 1000);
    assert_int_equal(left_b, 1300);
    assert_int_equal(first_a, 1000);
    assert_int_equal(first_b, 1300);
    assert_int_equal(network_through_card(&tested, first_a, 100, left_a), 1000 + 2000);
    assert_int_equal(network_through_card(&tested, first_b, 100, left_b), 1000 + 4000);
    /* A card faster than the link waits for the last byte. */
    network wide = slow_links(1e9);
    assert_int_equal(network_through_card(&wide, first_a, 100, left_a), 1000 + 1000);
    assert_int_equal(wide.card_in_free_ns, 1100);
}

static void time_does_not_run_over(void **state)
{
    (void)state;
    network tested = slow_links(1e-300);
    network_link link = {0};
    assert_true(network_down(&tested, &link, 5, 1) == TARRY_NEVER);
    assert_true(network_down(&tested, &link, 6, 1) == TARRY_NEVER);
    assert_true(network_through_card(&tested, 9, 1, TARRY_NEVER) == TARRY_NEVER);
    assert_true(network_after(TARRY_NEVER, 0) == TARRY_NEVER);
    assert_true(network_after(1, TARRY_NEVER - 1) == TARRY_NEVER);
    assert_true(network_after(1, TARRY_NEVER - 2) == TARRY_NEVER - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits_only_latency_counts),
        cmocka_unit_test(messages_on_a_link_follow_each_other),
        cmocka_unit_test(all_share_the_card_on_the_way_out),
        cmocka_unit_test(all_share_the_card_on_the_way_in),
        cmocka_unit_test(time_does_not_run_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
