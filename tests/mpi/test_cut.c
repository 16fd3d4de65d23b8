/* SPDX-License-Identifier: Apache-2.0 */
#include "draw.h"
#include "mpi/cut.h"
#include "seed.h"
#include "test.h"

enum { MOST_DIMENSION = 5000, TRIALS = 400 };

/* Every number is in one share, at its place. */
TEST(shares_have_every_number_once)
{
    uint64_t random = test_seed("cut", 1);
    static unsigned char times[MOST_DIMENSION];
    for (int trial = 0; trial < TRIALS; trial++) {
        tarry_engine_sum sum = {.dimension = 1 + draw(&random) % MOST_DIMENSION};
        sum.parts = 1 + (uint32_t)(draw(&random) % 4);
        uint32_t members = 1 + (uint32_t)(draw(&random) % 9);
        cut made;
        memset(times, 0, sizeof(times));
        cut_make(&sum, members, (size_t)16 << draw(&random) % 5, &made);
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
            assert_int_equal(times[i], 1);
    }
}

TEST(terms_are_added_in_their_order)
{
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
