/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/random.h"
#include "protocol/steering/pick.h"
#include "seed.h"

static void the_fewest_copies_come_first(void **state)
{
    (void)state;
    pick_candidate candidates[] = {
        {.slot = 0, .copies = 2, .wanted = 1},
        {.slot = 3, .copies = 1, .wanted = 1},
        {.slot = 4, .copies = 1, .wanted = 2},
        {.slot = 7, .copies = 2, .wanted = 2},
    };
    assert_int_equal(pick_fewest(candidates, 4), 1);
    candidates[3].copies = 0;
    assert_int_equal(pick_fewest(candidates, 4), 3);
    assert_int_equal(pick_fewest(candidates, 1), 0); /* no rest while anything is wanted */
    assert_int_equal(pick_fewest(candidates, 0), 0);
}

static void of_as_few_copies_the_least_capacity_comes_first(void **state)
{
    (void)state;
    pick_candidate candidates[] = {
        {.slot = 0, .copies = 0, .wanted = 1, .capacity = 3},
        {.slot = 1, .copies = 0, .wanted = 1, .capacity = 2},
        {.slot = 2, .copies = 0, .wanted = 1, .capacity = 2},
        {.slot = 3, .copies = 1, .wanted = 2, .capacity = 1},
    };
    assert_int_equal(pick_capacity(candidates, 4), 1);
    assert_int_equal(pick_capacity(candidates + 3, 1), 0);
    assert_int_equal(pick_capacity(candidates, 0), 0);
}

static void a_copy_too_many_must_come_sooner(void **state)
{
    (void)state;
    pick_candidate candidates[] = {
        {.slot = 0, .copies = 1, .wanted = 1, .others_ns = 10, .own_ns = 10},
        {.slot = 1, .copies = 1, .wanted = 1, .others_ns = 10, .own_ns = 11},
    };
    assert_int_equal(pick_capacity(candidates, 2), 2);
    candidates[1].own_ns = 9;
    assert_int_equal(pick_capacity(candidates, 2), 1);
    candidates[0].others_ns = INFINITY;
    assert_int_equal(pick_capacity(candidates, 2), 0);
}

/* The header's words, candidate by candidate: nothing that is better is left. */
static void the_choice_is_the_best(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("pick", 1), RANDOM_TEST, 0, 0);
    uint32_t rested = 0;
    for (uint32_t run = 0; run < 20000; run++) {
        pick_candidate candidates[8];
        size_t count = random_below(&stream, 9);
        for (size_t i = 0; i < count; i++)
            candidates[i] = (pick_candidate){
                .slot = (uint32_t)i,
                .copies = random_below(&stream, 4),
                .wanted = 1 + random_below(&stream, 3),
                .capacity = random_below(&stream, 3),
                .others_ns = random_below(&stream, 4),
                .own_ns = random_below(&stream, 4),
            };
        size_t fewest = pick_fewest(candidates, count), best = pick_capacity(candidates, count);
        assert_true(fewest < count || count == 0);
        rested += best == count;
        for (size_t i = 0; i < count; i++) {
            const pick_candidate *it = &candidates[i];
            assert_true(candidates[fewest].copies < it->copies ||
                        (candidates[fewest].copies == it->copies && fewest <= i));
            if (it->copies >= it->wanted && it->own_ns >= it->others_ns) {
                assert_true(best != i);
                continue;
            }
            assert_true(best < count);
            const pick_candidate *chosen = &candidates[best];
            assert_true(chosen->copies < it->copies ||
                        (chosen->copies == it->copies && chosen->capacity <= it->capacity));
        }
    }
    assert_true(rested > 1000 && rested < 15000);
}

static void every_rule_has_its_function(void **state)
{
    (void)state;
    assert_true(pick_rule_of(TARRY_PICK_FEWEST) == pick_fewest);
    assert_true(pick_rule_of(TARRY_PICK_CAPACITY) == pick_capacity);
    assert_null(pick_rule_of(TARRY_PICK_PLAN));
    assert_null(pick_rule_of(TARRY_PICK_SHARE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_copies_come_first),
        cmocka_unit_test(of_as_few_copies_the_least_capacity_comes_first),
        cmocka_unit_test(a_copy_too_many_must_come_sooner),
        cmocka_unit_test(the_choice_is_the_best),
        cmocka_unit_test(every_rule_has_its_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
