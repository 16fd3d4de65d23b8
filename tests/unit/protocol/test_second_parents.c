/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "protocol/relay/second_parents.h"

static void nobody_is_told_of_its_own_relay(void **state)
{
    (void)state;
    static const second_parent lanes[] = {{5, 0}, {5, 0}, {5, 0}};
    uint32_t chosen[WIRE_PARENTS_MOST];
    assert_int_equal(second_parents_choose(lanes, 3, 1, 0, chosen), 2);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 2);
    assert_int_equal(second_parents_choose(lanes, 1, 0, 7, chosen), 0);
    assert_int_equal(second_parents_choose(lanes, 0, 0, 7, chosen), 0);
    assert_int_equal(second_parents_choose(lanes, 3, 3, 7, chosen), 3);
}

static void a_crowded_relay_comes_last(void **state)
{
    (void)state;
    static const second_parent lanes[] = {{1000, 0}, {100, 0}, {10, 0}, {900, 0}, {160, 0}};
    uint32_t chosen[WIRE_PARENTS_MOST];
    for (uint32_t worker = 0; worker < 20; worker++) {
        assert_int_equal(second_parents_choose(lanes, 5, 1, worker, chosen), 4);
        assert_int_equal(chosen[0], 2);
    }
}

/* Not even the quickest is its own; one whose time is not known is no slow one. */
static void a_slow_relay_comes_behind_a_crowded_one(void **state)
{
    (void)state;
    static const second_parent of[] = {{0, 40000000}, {900, 200000}, {10, 900000},
                                       {0, 100000},   {12, 0},       {900, 40000000}};
    uint32_t chosen[WIRE_PARENTS_MOST];
    for (uint32_t worker = 0; worker < 20; worker++) {
        assert_int_equal(second_parents_choose(of, 6, 3, worker, chosen), WIRE_PARENTS_MOST);
        assert_true((chosen[0] == 2 && chosen[1] == 4) || (chosen[0] == 4 && chosen[1] == 2));
        assert_int_equal(chosen[2], 1);
        assert_int_equal(chosen[3], 0);
    }
    /* All are slow: none is then. */
    static const second_parent far[] = {{900, 40000000}, {5, 41000000}, {5, 58000000}};
    assert_int_equal(second_parents_choose(far, 3, 3, 0, chosen), 3);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 2);
    assert_int_equal(chosen[2], 0);
}

/* The 1,000 children of one of 11 relays: each of the others is the first of a tenth of them. */
static void the_children_of_a_lost_relay_spread(void **state)
{
    (void)state;
    second_parent lanes[11];
    uint32_t first[11] = {0}, chosen[WIRE_PARENTS_MOST];
    for (uint32_t i = 0; i < 11; i++)
        lanes[i] = (second_parent){1000 + i % 7, 400000 + i * 1000};
    for (uint32_t worker = 0; worker < 11000; worker++) {
        assert_int_equal(second_parents_choose(lanes, 11, 4, worker, chosen), WIRE_PARENTS_MOST);
        first[chosen[0]]++;
        for (uint32_t i = 0; i < WIRE_PARENTS_MOST; i++)
            for (uint32_t j = 0; j < i; j++)
                assert_int_not_equal(chosen[i], chosen[j]);
    }
    for (uint32_t i = 0; i < 11; i++)
        assert_in_range(first[i], i == 4 ? 0 : 1000, i == 4 ? 0 : 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_told_of_its_own_relay),
        cmocka_unit_test(a_crowded_relay_comes_last),
        cmocka_unit_test(a_slow_relay_comes_behind_a_crowded_one),
        cmocka_unit_test(the_children_of_a_lost_relay_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
