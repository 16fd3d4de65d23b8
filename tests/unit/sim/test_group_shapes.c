/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the shapes of src/route, over modelled links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "failing_allocator.h"
#include "route/route_cost.h"
#include "route/route_tree.h"
#include "sim/links/direct.h"
#include "sim/links/flows.h"
#include "sim/links/grid.h"
#include "sim/links/group_sum.h"
#include "sim/links/tree.h"

enum { MOST = 400, LATENCY_NS = 1000, BYTE_NS = 10 };

static network make_links(uint64_t message_ns)
{
    const tarry_sim_settings settings = {
        .link = {.latency_ns = LATENCY_NS, .bytes_per_second = 1e8, .message_ns = message_ns},
        .server_bytes_per_second = 1,
        .way = TARRY_SIM_GRID};
    network made;
    assert_int_equal(network_init(&made, &settings, MOST, NULL), TARRY_OK);
    return made;
}

typedef int sum_run(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
                    uint64_t *done_ns, uint64_t *moved);

static int run_direct(network *state, const group_sum *sum, const route *of,
                      const uint64_t *ready_ns, uint64_t *done_ns, uint64_t *moved)
{
    (void)of;
    return direct_sum(state, sum, ready_ns, done_ns, moved);
}

static int run_tree(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
                    uint64_t *done_ns, uint64_t *moved)
{
    (void)of;
    return tree_sum(state, sum, ready_ns, done_ns, moved);
}

/* When the last member has the sum. */
static uint64_t end_of(sum_run *run, const route *of, uint64_t dimension, uint32_t parts,
                       uint64_t message_ns, const uint64_t *ready_ns, uint64_t *moved)
{
    network links = make_links(message_ns);
    const group_sum sum = {.count = of->count, .dimension = dimension, .parts = parts};
    uint64_t done_ns[MOST], last_ns = 0;
    assert_int_equal(run(&links, &sum, of, ready_ns, done_ns, moved), TARRY_OK);
    for (uint32_t i = 0; i < of->count; i++)
        last_ns = network_later(last_ns, done_ns[i]);
    network_destroy(&links);
    return last_ns;
}

static route grid_of(uint32_t rows, uint32_t count)
{
    return (route){{TARRY_SHAPE_GRID, rows}, count};
}

/* Of d = 16 l n numbers each slice of a slice is as long as every other one. */
static void whole_grids_take_the_closed_form(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0}, message_ns = 70;
    for (uint64_t rows = 2; rows <= 5; rows++)
        for (uint64_t columns = 2; columns <= 6; columns++)
            for (uint32_t parts = 1; parts <= 2; parts++) {
                const route of = grid_of((uint32_t)rows, (uint32_t)(rows * columns));
                const uint64_t piece = 4 * 16, slice = rows * piece; /* bytes of a part */
                const uint64_t in_row = (1 + parts) * (columns - 1) * slice;
                const uint64_t in_column = 2 * parts * (rows - 1) * piece;
                const uint64_t messages = 2 * (columns - 1) + 2 * (rows - 1);
                uint64_t moved;
                assert_int_equal(end_of(grid_sum, &of, 16 * parts * of.count, parts, message_ns,
                                        ready_ns, &moved),
                                 4 * LATENCY_NS + messages * message_ns +
                                     BYTE_NS * (in_row + in_column));
                assert_int_equal(moved, of.count * (in_row + in_column));
            }
}

/* With one part 2 d (n - 1) numbers pass the links in any shape, as each number is sent to one
 * owner and back by all others. */
static void all_shapes_move_as_many_bytes(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0}, d = 100003;
    for (uint32_t count = 4; count <= 23; count++) {
        uint64_t moved;
        for (uint32_t rows = 2; rows <= count / 2; rows++) {
            const route of = grid_of(rows, count);
            end_of(grid_sum, &of, d, 1, 0, ready_ns, &moved);
            assert_int_equal(moved, 8 * d * (count - 1));
        }
        const route of = {{TARRY_SHAPE_TREE, 0}, count};
        end_of(run_tree, &of, d, 1, 0, ready_ns, &moved);
        assert_int_equal(moved, 8 * d * (count - 1));
    }
}

/* Each way has its form, also where messages are not followed one by one. */
static void forms_shorten_each_way(void **state)
{
    (void)state;
    static sum_run *const runs[] = {run_direct, flows_sum};
    const tarry_compress kinds[] = {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, TARRY_COMPRESS_INT8};
    const uint64_t bytes_of[] = {4 * 3200, 2 * 3200, 3200 + 4 * 13}; /* of a slice */
    const route of = {{TARRY_SHAPE_DIRECT, 0}, 5};
    const uint64_t ready_ns[MOST] = {0};
    for (size_t i = 0; i < 2 * 9; i++) {
        const size_t up = i / 2 % 3, down = i / 6;
        const group_sum sum = {.count = of.count,
                               .dimension = UINT64_C(5) * 3200,
                               .parts = 1,
                               .up = {.kind = kinds[up]},
                               .down = {.kind = kinds[down]}};
        const uint64_t each = (of.count - 1) * (bytes_of[up] + bytes_of[down]);
        network links = make_links(0);
        uint64_t done_ns[MOST], moved;
        assert_int_equal(runs[i % 2](&links, &sum, &of, ready_ns, done_ns, &moved), TARRY_OK);
        assert_int_equal(moved, of.count * each);
        assert_int_equal(done_ns[0], 2 * LATENCY_NS + BYTE_NS * each);
        network_destroy(&links);
    }
}

static void blocks_are_as_many_as_can_be_followed(void **state)
{
    (void)state;
    assert_int_equal(tree_blocks(10, 1), 1);
    assert_int_equal(tree_blocks(10, 2 * ROUTE_BLOCK_NUMBERS), 3);
    assert_int_equal(tree_blocks(1000, UINT64_C(1) << 40), 64);
    assert_int_equal(tree_blocks(131072, UINT64_C(1) << 40), 64);
    assert_int_equal(tree_blocks(1000000, UINT64_C(1) << 40), 8);
    assert_int_equal(tree_blocks(UINT32_MAX, UINT64_C(1) << 40), 1);
}

/* A tree of few numbers takes the latency of its depth, up and down, and no more than all of its
 * members' bytes one after the other on the way. */
static void trees_take_their_depth(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0}, d = 32;
    for (uint32_t count = 2; count <= 100; count++) {
        const route of = {{TARRY_SHAPE_TREE, 0}, count};
        const uint64_t hops = 2 * (uint64_t)route_tree_depth(count);
        uint64_t moved, took = end_of(run_tree, &of, d, 1, 0, ready_ns, &moved);
        assert_true(took >= hops * LATENCY_NS);
        assert_true(took <= hops * (LATENCY_NS + 3 * 4 * d / 2 * BYTE_NS));
    }
}

/* One that is late keeps everybody waiting, and nobody twice as long as if all were. */
static void all_wait_for_the_last_one(void **state)
{
    (void)state;
    sum_run *const runs[] = {grid_sum, run_tree};
    const uint64_t late_ns = 100000000;
    for (size_t i = 0; i < 2; i++)
        for (uint32_t late = 0; late < 13; late++) {
            const route of = i == 0 ? grid_of(3, 13) : (route){{TARRY_SHAPE_TREE, 0}, 13};
            uint64_t ready_ns[MOST] = {0}, moved;
            uint64_t alone_ns = end_of(runs[i], &of, 4000, 1, 0, ready_ns, &moved);
            ready_ns[late] = late_ns;
            uint64_t end_ns = end_of(runs[i], &of, 4000, 1, 0, ready_ns, &moved);
            assert_true(end_ns > late_ns + 2 * LATENCY_NS && end_ns <= late_ns + 2 * alone_ns);
        }
}

/* Blocks go up and down the trees without a pause, as the model has it by which a shape is chosen.
 */
static void trees_keep_their_cards_busy(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0};
    const uint32_t d = 4000000; /* in blocks as long as the model's */
    const route_links links = {.latency_ns = LATENCY_NS, .bytes_per_second = 1e9 / BYTE_NS};
    for (uint32_t count = 16; count <= MOST; count *= 2) {
        const route of = {{TARRY_SHAPE_TREE, 0}, count};
        uint64_t moved;
        double took = (double)end_of(run_tree, &of, d, 1, 0, ready_ns, &moved);
        double counted = route_time_ns(&of, d, 1, &links);
        assert_true(took > 0.9 * counted && took < 1.1 * counted);
    }
}

/* At a card of half the bandwidth pieces of columns don't wait for slices of rows: with them a grid
 * took 2.8 times what it takes without such a card. */
static void a_thin_card_takes_little_more_than_its_bytes(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0};
    double factor[MOST] = {2};
    for (uint32_t i = 1; i < MOST; i++)
        factor[i] = 1;
    const route of = grid_of(8, 64);
    const group_sum sum = {.count = of.count, .dimension = 1 << 20, .parts = 1};
    const tarry_sim_settings settings = {
        .link = {.latency_ns = LATENCY_NS, .bytes_per_second = 1e9 / BYTE_NS},
        .link_factor = factor,
        .server_bytes_per_second = 1};
    network links;
    uint64_t done_ns[MOST], last_ns = 0, moved;
    assert_int_equal(network_init(&links, &settings, MOST, NULL), TARRY_OK);
    assert_int_equal(grid_sum(&links, &sum, &of, ready_ns, done_ns, &moved), TARRY_OK);
    for (uint32_t i = 0; i < of.count; i++)
        last_ns = network_later(last_ns, done_ns[i]);
    const uint64_t even_ns = end_of(grid_sum, &of, sum.dimension, 1, 0, ready_ns, &moved);
    assert_true(last_ns > 19 * even_ns / 10 && last_ns < 23 * even_ns / 10);
    network_destroy(&links);
}

/* What many messages are taken for is what they take: to the nanosecond where members are alike. */
static void flows_take_what_their_messages_do(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0}, message_ns = 300;
    uint64_t moved, by_flows;
    for (uint32_t count = 2; count <= 30; count++)
        for (uint32_t parts = 1; parts <= 3; parts++) {
            const route of = {{TARRY_SHAPE_DIRECT, 0}, count};
            const uint64_t d = 60 * count * parts;
            assert_int_equal(end_of(flows_sum, &of, d, parts, message_ns, ready_ns, &by_flows),
                             end_of(run_direct, &of, d, parts, message_ns, ready_ns, &moved));
            assert_int_equal(by_flows, moved);
        }
    for (uint32_t rows = 2; rows <= 12; rows++) {
        const route of = grid_of(rows, rows * 30);
        const uint64_t d = 16 * of.count;
        assert_int_equal(end_of(flows_sum, &of, d, 1, message_ns, ready_ns, &by_flows),
                         end_of(grid_sum, &of, d, 1, message_ns, ready_ns, &moved));
        assert_int_equal(by_flows, moved);
    }
}

/* Where rows differ in length, within 6 %. */
static void flows_are_near_where_rows_differ(void **state)
{
    (void)state;
    const uint64_t ready_ns[MOST] = {0};
    for (uint32_t count = 100; count <= MOST; count += 37)
        for (uint32_t rows = 7; rows <= 20; rows += 6) {
            const route of = grid_of(rows, count);
            uint64_t moved, by_flows;
            double flows = (double)end_of(flows_sum, &of, 1000000, 1, 300, ready_ns, &by_flows);
            double messages = (double)end_of(grid_sum, &of, 1000000, 1, 300, ready_ns, &moved);
            assert_true(flows > 0.94 * messages && flows < 1.02 * messages);
            assert_int_equal(by_flows, moved);
        }
}

/* Many members, and a time for each message: rows and columns. Few numbers: trees. */
static void the_shape_is_chosen_by_what_it_takes(void **state)
{
    (void)state;
    network quick = make_links(0), busy = make_links(3000);
    const group_sum long_sum = {.count = MOST, .dimension = 1000000, .parts = 1};
    const group_sum short_sum = {.count = MOST, .dimension = 100, .parts = 1};
    assert_int_equal(group_sum_choose(&quick, TARRY_SIM_CHOSEN, &long_sum).kind,
                     TARRY_SHAPE_DIRECT);
    assert_int_equal(group_sum_choose(&busy, TARRY_SIM_CHOSEN, &long_sum).kind, TARRY_SHAPE_GRID);
    assert_int_equal(group_sum_choose(&busy, TARRY_SIM_CHOSEN, &short_sum).kind, TARRY_SHAPE_TREE);
    assert_int_equal(group_sum_choose(&busy, TARRY_SIM_DIRECT, &short_sum).kind,
                     TARRY_SHAPE_DIRECT);
    network_destroy(&quick);
    network_destroy(&busy);
}

/* A card that carries nothing: nobody has a sum that its member's numbers are not in. */
static void what_never_passes_is_in_nobodys_sum(void **state)
{
    (void)state;
    static const struct {
        sum_run *run;
        route of;
    } shapes[] = {{run_direct, {{TARRY_SHAPE_DIRECT, 0}, 12}},
                  {grid_sum, {{TARRY_SHAPE_GRID, 3}, 12}},
                  {grid_sum, {{TARRY_SHAPE_GRID, 5}, 12}},
                  {flows_sum, {{TARRY_SHAPE_GRID, 3}, 12}},
                  {run_tree, {{TARRY_SHAPE_TREE, 0}, 12}}};
    const uint64_t ready_ns[MOST] = {0};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (uint32_t thin = 0; thin < 12; thin++) {
            network links = make_links(0);
            const group_sum sum = {.count = 12, .dimension = 100000, .parts = 1};
            uint64_t done_ns[MOST], moved;
            links.workers[thin].out.ns_per_byte = INFINITY;
            assert_int_equal(shapes[i].run(&links, &sum, &shapes[i].of, ready_ns, done_ns, &moved),
                             TARRY_OK);
            for (uint32_t place = 0; place < 12; place++)
                assert_true(place == thin || done_ns[place] == TARRY_NEVER);
            network_destroy(&links);
        }
}

static int run_failing(void *user, const tarry_allocator *allocator)
{
    const tarry_sim_way *way = user;
    const uint64_t ready_ns[MOST] = {0};
    const group_sum sum = {.count = 6, .dimension = 100, .parts = 2};
    const tarry_sim_settings settings = {.link = {.bytes_per_second = 1e8},
                                         .server_bytes_per_second = 1};
    uint64_t done_ns[MOST], moved;
    network links;
    int error = network_init(&links, &settings, MOST, allocator);
    if (error == TARRY_OK) {
        error = group_sum_run(&links, *way, &sum, ready_ns, done_ns, &moved);
        assert_true((links.workers[0].out.free_ns > 0) == (error == TARRY_OK));
    }
    network_destroy(&links);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    tarry_sim_way ways[] = {TARRY_SIM_GRID, TARRY_SIM_TREE};
    assert_int_equal(fail_each_allocation(run_failing, &ways[0]), 16);
    assert_int_equal(fail_each_allocation(run_failing, &ways[1]), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_grids_take_the_closed_form),
        cmocka_unit_test(all_shapes_move_as_many_bytes),
        cmocka_unit_test(trees_take_their_depth),
        cmocka_unit_test(trees_keep_their_cards_busy),
        cmocka_unit_test(a_thin_card_takes_little_more_than_its_bytes),
        cmocka_unit_test(all_wait_for_the_last_one),
        cmocka_unit_test(what_never_passes_is_in_nobodys_sum),
        cmocka_unit_test(flows_take_what_their_messages_do),
        cmocka_unit_test(flows_are_near_where_rows_differ),
        cmocka_unit_test(forms_shorten_each_way),
        cmocka_unit_test(blocks_are_as_many_as_can_be_followed),
        cmocka_unit_test(the_shape_is_chosen_by_what_it_takes),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
