/* SPDX-License-Identifier: Apache-2.0 */
/* Both trees span all seats, agree on parents and children, are flat, and share the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdint.h>

#include "route/route.h"
#include "route/route_tree.h"

enum { MOST = 300 };

static uint32_t height(uint32_t count, uint32_t tree, uint32_t seat)
{
    uint32_t edges = 0;
    while ((seat = route_tree_parent(count, tree, seat)) != ROUTE_NOBODY) {
        edges++;
        assert_true(seat < count && edges <= count);
    }
    return edges;
}

static void a_seat_is_its_parents_child_and_no_other_ones(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOST; count++)
        for (uint32_t tree = 0; tree < ROUTE_TREES; tree++) {
            uint32_t found = 0, children[ROUTE_CHILDREN];
            for (uint32_t seat = 0; seat < count; seat++) {
                uint32_t below = route_tree_children(count, tree, seat, children);
                for (uint32_t i = 0; i < below; i++)
                    assert_int_equal(route_tree_parent(count, tree, children[i]), seat);
                assert_true(below < 2 || children[0] != children[1]);
                found += below;
            }
            assert_int_equal(found, count - 1);
        }
}

static void no_seat_is_further_from_the_root_than_the_depth(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOST; count++)
        for (uint32_t tree = 0; tree < ROUTE_TREES; tree++) {
            uint32_t most = 0;
            for (uint32_t seat = 0; seat < count; seat++) {
                uint32_t edges = height(count, tree, seat);
                most = edges > most ? edges : most;
            }
            assert_int_equal(most, route_tree_depth(count));
        }
}

static void nobody_has_more_than_two_children_in_both_trees(void **state)
{
    (void)state;
    for (uint32_t count = 3; count <= MOST; count++)
        for (uint32_t seat = 0; seat < count; seat++) {
            uint32_t children[ROUTE_CHILDREN];
            assert_true(route_tree_children(count, 0, seat, children) +
                            route_tree_children(count, 1, seat, children) <=
                        2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_is_its_parents_child_and_no_other_ones),
        cmocka_unit_test(no_seat_is_further_from_the_root_than_the_depth),
        cmocka_unit_test(nobody_has_more_than_two_children_in_both_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
