/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draw.h"
#include "mpi/cut.h"
#include "seed.h"

enum { MOST_DIMENSION = 5000, TRIALS = 400 };

/* Every number that does not stand yet is in one share, at its place. */
static void shares_have_every_number_once(void **state)
{
    (void)state;
    uint64_t random = test_seed("cut", 1);
    static unsigned char times[MOST_DIMENSION];
    for (int trial = 0; trial < TRIALS; trial++) {
        tarry_engine_sum sum = {.dimension = 1 + draw(&random) % MOST_DIMENSION};
        sum.parts = 1 + (uint32_t)(draw(&random) % 4);
        size_t part = (sum.dimension - 1) / sum.parts + 1;
        if (part > sum.parts)
            sum.whole = draw(&random) % (part - sum.parts + 1) / 16 * 16;
        uint32_t members = 1 + (uint32_t)(draw(&random) % 9);
        cut made;
        memset(times, 0, sizeof(times));
        assert_true(cut_make(&sum, members, (size_t)16 << draw(&random) % 5, &made));
        for (uint32_t stripe = 0; stripe < made.stripes; stripe++) {
            for (uint32_t place = 0; place < members; place++) {
                cut_share of = cut_share_of(&made, stripe, place);
                size_t numbers = 0;
                for (uint32_t k = 0; k < made.parts; k++) {
                    size_t exists = cut_exists(&made, k, of), first = cut_place(&made, k, of);
                    numbers += exists;
                    for (size_t i = 0; i < exists; i++)
                        times[first + i]++;
                }
                assert_int_equal(numbers, cut_numbers(&made, of));
            }
        }
        for (size_t i = 0; i < sum.dimension; i++)
            assert_int_equal(times[i], i % part >= sum.whole);
    }
}

static void what_can_not_stand_is_refused(void **state)
{
    (void)state;
    cut made;
    const tarry_engine_sum odd = {.dimension = 100, .parts = 1, .whole = 17};
    const tarry_engine_sum all = {.dimension = 96, .parts = 1, .whole = 96};
    const tarry_engine_sum most = {.dimension = 97, .parts = 1, .whole = 96};
    assert_false(cut_make(&odd, 3, 64, &made));
    assert_false(cut_make(&all, 3, 64, &made));
    assert_true(cut_make(&most, 3, 64, &made));
    assert_int_equal(made.dimension, 1);
}

static void terms_are_added_in_their_order(void **state)
{
    (void)state;
    enum { LENGTH = 2500, TERMS = 5 };
    static float in[TERMS][LENGTH], out[LENGTH];
    const float weights[TERMS] = {1.5F, -0.25F, 3, 1e-3F, 7};
    const float *from[TERMS];
    uint64_t random = test_seed("cut", 1);
    for (size_t t = 0; t < TERMS; t++) {
        from[t] = in[t];
        for (size_t i = 0; i < LENGTH; i++)
            in[t][i] = (float)(draw(&random) % 1000000) / 1000;
    }
    cut_combine(out, from, weights, TERMS, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        float sum = weights[0] * in[0][i];
        for (size_t t = 1; t < TERMS; t++)
            sum += weights[t] * in[t][i];
        assert_memory_equal(&out[i], &sum, sizeof(sum));
    }
    cut_combine(out, from, weights, 0, LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        assert_true(out[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_have_every_number_once),
        cmocka_unit_test(what_can_not_stand_is_refused),
        cmocka_unit_test(terms_are_added_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
