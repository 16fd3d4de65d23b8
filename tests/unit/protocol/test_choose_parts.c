/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/random.h"
#include "protocol/server/choose_parts.h"
#include "seed.h"

static void of_those_that_are_met_the_shortest_upload_is_taken(void **state)
{
    (void)state;
    const parts_prospect prospects[] = {
        {.met = true, .upload_ns = 40},
        {.met = true, .upload_ns = 20},
        {.wait_ns = 9, .upload_ns = 13},
        {.wait_ns = INFINITY, .upload_ns = 10},
    };
    assert_int_equal(choose_parts(prospects, 1, INFINITY), 0);
    assert_int_equal(choose_parts(prospects, 2, INFINITY), 1);
    assert_int_equal(choose_parts(prospects, 3, INFINITY), 1); /* 9 + 13 > 20 */
    assert_int_equal(choose_parts(prospects, 4, INFINITY), 1);
}

static void a_wait_is_worth_what_it_saves_within_the_patience(void **state)
{
    (void)state;
    parts_prospect prospects[] = {
        {.met = true, .upload_ns = 40},
        {.wait_ns = 10, .upload_ns = 20},
        {.wait_ns = 15, .upload_ns = 13},
    };
    assert_int_equal(choose_parts(prospects, 3, 15), 2);
    assert_int_equal(choose_parts(prospects, 3, 14), 1);
    assert_int_equal(choose_parts(prospects, 3, 9), 0);
    assert_int_equal(choose_parts(prospects, 3, -1), 0);
    prospects[1].wait_ns = NAN; /* nothing is known of it */
    assert_int_equal(choose_parts(prospects, 2, INFINITY), 0);
}

static void of_equals_the_most_parts_are_taken(void **state)
{
    (void)state;
    const parts_prospect prospects[] = {
        {.met = true, .upload_ns = 0},
        {.met = true, .upload_ns = 0},
        {.wait_ns = 0, .upload_ns = 0},
        {.wait_ns = 1, .upload_ns = 0},
    };
    assert_int_equal(choose_parts(prospects, 4, 1), 2);
}

static void nothing_that_is_allowed_is_better(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("choose parts", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 10000; run++) {
        parts_prospect prospects[5];
        uint32_t count = 1 + random_below(&stream, 5);
        for (uint32_t i = 0; i < count; i++)
            prospects[i] = (parts_prospect){
                .met = i == 0 || random_below(&stream, 3) == 0,
                .wait_ns = random_below(&stream, 10),
                .upload_ns = random_below(&stream, 10),
            };
        double patience = random_below(&stream, 10);
        uint32_t best = choose_parts(prospects, count, patience);
        assert_true(best < count);
        assert_true(prospects[best].met || prospects[best].wait_ns <= patience);
        double time =
            (prospects[best].met ? 0 : prospects[best].wait_ns) + prospects[best].upload_ns;
        for (uint32_t i = 0; i < count; i++) {
            if (!prospects[i].met && prospects[i].wait_ns > patience)
                continue;
            double other = (prospects[i].met ? 0 : prospects[i].wait_ns) + prospects[i].upload_ns;
            assert_true(time < other || (time == other && i <= best));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_those_that_are_met_the_shortest_upload_is_taken),
        cmocka_unit_test(a_wait_is_worth_what_it_saves_within_the_patience),
        cmocka_unit_test(of_equals_the_most_parts_are_taken),
        cmocka_unit_test(nothing_that_is_allowed_is_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
