/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and parts on their way through relays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "failing_allocator.h"
#include "sim/links/relays.h"

enum { LATENCY_NS = 1000, BYTE_NS = 10, BLOCKS = 20 };

static const uint64_t bytes = (uint64_t)BLOCKS * RELAYS_BLOCK_BYTES;
static const uint64_t all_ns = (uint64_t)BLOCKS * RELAYS_BLOCK_BYTES * BYTE_NS;
static const uint64_t block_ns = (uint64_t)RELAYS_BLOCK_BYTES * BYTE_NS;

static tarry_sim_settings make_settings(uint32_t fan_in)
{
    return (tarry_sim_settings){
        .link = {.latency_ns = LATENCY_NS, .bytes_per_second = 1e8},
        .server_bytes_per_second = 1e8,
        .relays = fan_in,
    };
}

typedef struct tree {
    network links;
    relays relays;
} tree;

static tree make_tree(uint32_t fan_in, uint32_t workers)
{
    const tarry_sim_settings settings = make_settings(fan_in);
    tree made;
    assert_int_equal(network_init(&made.links, &settings, workers, NULL), TARRY_OK);
    assert_int_equal(relays_init(&made.relays, &settings, workers, NULL), TARRY_OK);
    return made;
}

static void free_tree(tree *all)
{
    relays_destroy(&all->relays);
    network_destroy(&all->links);
}

static void tiers_narrow_to_two(void **state)
{
    (void)state;
    static const uint32_t of[][5] = {
        /* workers, fan-in, tiers, relays, below the server */
        {1, 2, 1, 1, 1},     {4, 2, 1, 2, 2},        {5, 2, 2, 5, 2},
        {100, 10, 2, 11, 1}, {10000, 16, 4, 669, 1}, {20, 10, 1, 2, 2},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        tree all = make_tree(of[i][1], of[i][0]);
        assert_int_equal(all.relays.tiers, of[i][2]);
        assert_int_equal(all.relays.count, of[i][3]);
        assert_int_equal(all.relays.top, of[i][4]);
        /* Each worker is below one relay of the top, its neighbour the same one or the next. */
        uint32_t before = all.relays.count - all.relays.top;
        for (uint32_t worker = 0; worker < of[i][0]; worker++) {
            uint32_t top = relays_top(&all.relays, all.relays.parents[worker]);
            assert_true(top == before || top == before + 1);
            before = top;
        }
        assert_int_equal(before, all.relays.count - 1);
        const uint64_t takes_ns = (of[i][2] + 1) * LATENCY_NS;
        assert_int_equal(relays_tell(&all.relays, &all.links, 0, 7), 7 + takes_ns);
        assert_int_equal(relays_say(&all.relays, &all.links, 0, 7), 7 + takes_ns);
        free_tree(&all);
    }
}

/* Block by block: as long as the widest relay takes for all below it, and a block of each tier. */
static void parameters_come_to_all_at_once(void **state)
{
    (void)state;
    tree all = make_tree(4, 64);
    uint64_t first_ns = relays_down(&all.relays, &all.links, 0, 0, bytes);
    /* The server sends one copy, the relays of three tiers four each. */
    uint64_t hops_ns = 4 * LATENCY_NS;
    assert_true(first_ns >= hops_ns + 4 * all_ns);
    assert_true(first_ns <= hops_ns + 4 * all_ns + 3 * 4 * block_ns);
    for (uint32_t worker = 1; worker < 64; worker++)
        assert_int_equal(relays_down(&all.relays, &all.links, worker, 0, bytes), first_ns);
    assert_int_equal(all.links.server.out.bytes, bytes);
    for (uint32_t i = 0; i < all.relays.count; i++) {
        assert_int_equal(all.relays.items[i].card.out.bytes, 4 * bytes);
        assert_int_equal(all.relays.items[i].card.in.bytes, bytes);
    }
    free_tree(&all);
}

/* Whether the part was the last one; then when the server has the sum. */
static bool send(tree *all, uint32_t worker, uint64_t now, const relay **top, uint64_t *there_ns)
{
    uint64_t left_ns;
    return relays_up(&all->relays, &all->links, worker, now, bytes, bytes, &left_ns, top, there_ns);
}

static void parts_add_up_on_the_way(void **state)
{
    (void)state;
    tree all = make_tree(4, 64);
    const relay *top;
    uint64_t there_ns = 0;
    for (uint32_t worker = 0; worker < 64; worker++)
        relays_expect(&all.relays, worker);
    for (uint32_t worker = 0; worker < 64; worker++)
        assert_int_equal(send(&all, worker, 0, &top, &there_ns), worker == 63);
    assert_true(there_ns >= 4 * LATENCY_NS + 4 * all_ns);
    assert_true(there_ns <= 4 * LATENCY_NS + 4 * all_ns + 3 * 5 * block_ns);
    assert_int_equal(all.links.server.in.bytes, bytes);
    assert_ptr_equal(top, &all.relays.items[all.relays.count - 1]);
    free_tree(&all);
}

/* Only those who are to send are waited for, and one that is late delays by its own part alone. */
static void only_those_who_send_are_waited_for(void **state)
{
    (void)state;
    tree all = make_tree(4, 64);
    const uint64_t late_ns = 100 * all_ns;
    const relay *top;
    uint64_t there_ns = 0;
    relays_expect(&all.relays, 3);
    relays_expect(&all.relays, 60);
    assert_false(send(&all, 60, 0, &top, &there_ns));
    assert_true(send(&all, 3, late_ns, &top, &there_ns));
    assert_true(there_ns >= late_ns + 4 * LATENCY_NS + all_ns);
    assert_true(there_ns <= late_ns + 4 * LATENCY_NS + all_ns + 3 * 3 * block_ns);
    relays_forget(&all.relays);
    relays_expect(&all.relays, 5);
    assert_true(send(&all, 5, 2 * late_ns, &top, &there_ns));
    free_tree(&all);
}

/* A relay that dies before its sum has left it is waited for no longer; one that dies later has
 * sent it. What would pass it is lost, and a part that comes once more takes a way of its own. */
static void what_a_dead_relay_had_is_lost(void **state)
{
    (void)state;
    const relay *top;
    for (int late = 0; late < 2; late++) {
        tree all = make_tree(4, 64);
        relay *dies = &all.relays.items[1]; /* above workers 4..7 */
        uint64_t there_ns = 0, left_ns;
        dies->dies_ns = late ? 100 * all_ns : all_ns;
        for (uint32_t worker = 0; worker < 64; worker++)
            relays_expect(&all.relays, worker);
        for (uint32_t worker = 0; worker < 64; worker++)
            assert_int_equal(send(&all, worker, 0, &top, &there_ns), late && worker == 63);
        assert_int_equal(dies->passed, late);
        assert_int_equal(
            relays_lose(&all.relays, &all.links, 1, dies->dies_ns, bytes, &top, &there_ns), !late);
        assert_true(there_ns >= all_ns);
        assert_int_equal(all.links.server.in.bytes, bytes);

        const uint64_t now = 1000 * all_ns;
        assert_true(relays_cut(&all.relays, 5, now) && !relays_cut(&all.relays, 3, now));
        assert_int_equal(relays_say(&all.relays, &all.links, 5, now), TARRY_NEVER);
        assert_int_equal(relays_tell(&all.relays, &all.links, 5, now), TARRY_NEVER);
        assert_int_equal(relays_down(&all.relays, &all.links, 5, now, bytes), TARRY_NEVER);
        assert_int_equal(relays_up_alone(&all.relays, &all.links, 5, now, bytes, &left_ns),
                         TARRY_NEVER);
        relays_adopt(&all.relays, 5, 0);
        assert_int_equal(dies->children, 3);
        assert_int_equal(all.relays.items[0].children, 5);
        assert_int_equal(relays_say(&all.relays, &all.links, 5, now), now + 4 * LATENCY_NS);
        const uint64_t then = 2 * now, alone_ns = relays_up_alone(&all.relays, &all.links, 5, then,
                                                                  bytes, &left_ns);
        assert_true(alone_ns >= then + 4 * LATENCY_NS + all_ns);
        assert_true(alone_ns <= then + 4 * LATENCY_NS + all_ns + 4 * block_ns);
        assert_int_equal(relays_resend(&all.relays, &all.links, 5, 3 * now, bytes),
                         3 * now + 4 * LATENCY_NS + all_ns);
        free_tree(&all);
    }
}

static void what_goes_up_leaves_in_batches(void **state)
{
    (void)state;
    tree all = make_tree(4, 4);
    all.relays.batch_ns = 5000;
    assert_int_equal(relays_say(&all.relays, &all.links, 0, 0), 5000 + LATENCY_NS);
    assert_int_equal(relays_say(&all.relays, &all.links, 1, 3999), 5000 + LATENCY_NS);
    assert_int_equal(relays_say(&all.relays, &all.links, 1, 4000), 5000 + LATENCY_NS);
    assert_int_equal(relays_say(&all.relays, &all.links, 1, 4001), 10000 + LATENCY_NS);
    assert_int_equal(relays_tell(&all.relays, &all.links, 1, 4001), 4001 + 2 * LATENCY_NS);
    free_tree(&all);
}

static int make(void *user, const tarry_allocator *allocator)
{
    const tarry_sim_settings settings = make_settings(3);
    relays *all = user;
    int error = relays_init(all, &settings, 30, allocator);
    relays_destroy(all);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    relays all;
    assert_int_equal(fail_each_allocation(make, &all), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_narrow_to_two),
        cmocka_unit_test(parameters_come_to_all_at_once),
        cmocka_unit_test(parts_add_up_on_the_way),
        cmocka_unit_test(only_those_who_send_are_waited_for),
        cmocka_unit_test(what_a_dead_relay_had_is_lost),
        cmocka_unit_test(what_goes_up_leaves_in_batches),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
