/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes by the formula beside those that the routes send, and what is chosen where it is plain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>

#include "route/route_cost.h"
#include "shapes.h"

enum { MEMBERS_MOST = 40, SEATS_ROOM = 64, NUMBER_BYTES = 4 };

/* Numbers of one part that the seat sends as its coded part, and of each part. */
static void count_sent(const route *of, uint32_t seat, size_t length, double *coded, double *whole)
{
    uint32_t below[SEATS_ROOM];
    for (uint32_t i = 0; i < route_slices(of, seat); i++) {
        route_slice slice = route_slice_at(of, seat, i);
        double of_slice = (double)route_find(&slice.where, length).length;
        if (slice.owner != seat) {
            *coded += of_slice;
            continue;
        }
        *whole += of_slice * (route_leaves(of, seat, i, below) - 1);
        for (uint32_t k = 0; k < route_pieces(of, seat, i); k++) {
            route_piece piece = route_piece_at(of, seat, i, k);
            double of_piece = (double)route_find(&piece.where, length).length;
            *whole += of_piece * (route_inners(of, seat, i, k, below) +
                                  (piece.parent != ROUTE_NOBODY ? 1 : 0));
        }
    }
}

static void the_busiest_member_sends_what_the_formula_says(void **state)
{
    (void)state;
    const size_t length = (size_t)ROUTE_LINE * 3 * 5 * 7 * 8 * 9 * 11 * 13 * 10;
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (uint32_t count = 1; count <= MEMBERS_MOST; count++) {
            route of;
            for (uint32_t shape = 0; shape_at(count, shape, &of) || shape < 2; shape++) {
                double most = 0;
                for (uint32_t seat = 0; seat < count; seat++) {
                    double coded = 0, whole = 0;
                    count_sent(&of, seat, length, &coded, &whole);
                    most = fmax(most, NUMBER_BYTES * (coded + parts * whole));
                }
                double said = route_bytes(&of, (double)length * parts, parts);
                if (of.shape.kind == TARRY_SHAPE_TREE && count < 4)
                    assert_true(most <= said);
                else
                    assert_true(fabs(most - said) <= 1e-4 * said);
            }
        }
}

static tarry_shape chosen(uint32_t count, double dimension)
{
    const route_links links = route_links_usual();
    return route_choose(TARRY_SHAPE_AUTO, count, dimension, 1, &links, (tarry_shape){0});
}

static void few_members_are_direct(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 8; count++)
        assert_int_equal(chosen(count, 1e7).kind, TARRY_SHAPE_DIRECT);
}

static void many_members_with_few_numbers_are_a_tree(void **state)
{
    (void)state;
    assert_int_equal(chosen(10000, 100).kind, TARRY_SHAPE_TREE);
}

static void ten_thousand_members_with_many_numbers_are_a_grid(void **state)
{
    (void)state;
    const route_links links = route_links_usual();
    const route best = {chosen(10000, 1e8), 10000}, square = {{TARRY_SHAPE_GRID, 100}, 10000};
    assert_int_equal(best.shape.kind, TARRY_SHAPE_GRID);
    assert_true(route_time_ns(&square, 1e8, 1, &links) <
                1.2 * route_time_ns(&best, 1e8, 1, &links));
}

/* collective.md of this project's plan: 0.104 s direct, 0.069 s by a grid of 100 x 100, d = 1e8 at
 * 100 Gb/s with 2 us a message. */
static void a_grid_of_ten_thousand_is_as_fast_as_its_arithmetic(void **state)
{
    (void)state;
    const route_links links = {.latency_ns = 2e3, .bytes_per_second = 12.5e9, .message_ns = 2e3};
    const route direct = {{TARRY_SHAPE_DIRECT, 0}, 10000}, grid = {{TARRY_SHAPE_GRID, 100}, 10000};
    double slow = route_time_ns(&direct, 1e8, 1, &links),
           quick = route_time_ns(&grid, 1e8, 1, &links);
    assert_true(quick > 0.064e9 && quick < 0.130e9);
    assert_true(slow > 0.100e9 && slow > quick);
}

static void nothing_is_as_quick_as_what_is_chosen(void **state)
{
    (void)state;
    const route_links links = route_links_usual();
    for (uint32_t count = 1; count <= MEMBERS_MOST; count++)
        for (double dimension = 1; dimension < 1e9; dimension *= 10) {
            const route best = {chosen(count, dimension), count};
            route of;
            for (uint32_t shape = 0; shape_at(count, shape, &of) || shape < 2; shape++)
                assert_true(route_time_ns(&best, dimension, 1, &links) <=
                            route_time_ns(&of, dimension, 1, &links));
        }
}

static void what_there_is_stays_unless_another_one_is_much_better(void **state)
{
    (void)state;
    const route_links links = route_links_usual();
    tarry_shape best = chosen(10000, 1e8);
    tarry_shape beside = {TARRY_SHAPE_GRID, best.rows + 1}, far = {TARRY_SHAPE_GRID, 5000};
    assert_int_equal(route_choose(TARRY_SHAPE_AUTO, 10000, 1e8, 1, &links, beside).rows,
                     beside.rows);
    assert_int_equal(route_choose(TARRY_SHAPE_AUTO, 10000, 1e8, 1, &links, far).rows, best.rows);
    /* It is no shape of a smaller group any more. */
    assert_int_equal(route_choose(TARRY_SHAPE_AUTO, 8, 1e8, 1, &links, far).kind,
                     TARRY_SHAPE_DIRECT);
}

static void a_kind_that_is_asked_for_is_had_where_it_can_be(void **state)
{
    (void)state;
    const route_links links = route_links_usual();
    const tarry_shape none = {0};
    assert_int_equal(route_choose(TARRY_SHAPE_TREE, 2, 1e8, 1, &links, none).kind,
                     TARRY_SHAPE_TREE);
    assert_int_equal(route_choose(TARRY_SHAPE_GRID, 9, 10, 1, &links, none).kind, TARRY_SHAPE_GRID);
    assert_int_equal(route_choose(TARRY_SHAPE_GRID, 3, 10, 1, &links, none).kind,
                     TARRY_SHAPE_DIRECT);
    assert_int_equal(route_choose(TARRY_SHAPE_DIRECT, 10000, 10, 1, &links, none).kind,
                     TARRY_SHAPE_DIRECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_member_sends_what_the_formula_says),
        cmocka_unit_test(few_members_are_direct),
        cmocka_unit_test(many_members_with_few_numbers_are_a_tree),
        cmocka_unit_test(ten_thousand_members_with_many_numbers_are_a_grid),
        cmocka_unit_test(a_grid_of_ten_thousand_is_as_fast_as_its_arithmetic),
        cmocka_unit_test(nothing_is_as_quick_as_what_is_chosen),
        cmocka_unit_test(what_there_is_stays_unless_another_one_is_much_better),
        cmocka_unit_test(a_kind_that_is_asked_for_is_had_where_it_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
