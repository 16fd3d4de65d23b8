/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "seed.h"
#include "test.h"

/* Known answer of Random123's kat_vectors: philox4x32-10, counter and key zero. */
TEST(philox_matches_its_known_answer)
{
    random_stream stream = random_stream_make(0, (random_purpose)0, 0, 0);
    const uint32_t expected[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int i = 0; i < 4; i++)
        assert_int_equal(random_u32(&stream), expected[i]);
}

TEST(draws_have_their_distributions_moments)
{
    random_stream stream = random_stream_make(test_seed("moments", 1), RANDOM_TEST, 0, 0);
    const int draws = 200000;
    double uniform = 0, exponential = 0, normal = 0, square = 0;
    for (int i = 0; i < draws; i++) {
        uniform += random_uniform(&stream);
        exponential += random_exponential(&stream);
        double z = random_normal(&stream);
        normal += z;
        square += z * z;
    }
    double tolerance = 5 / sqrt(draws); /* five standard deviations of a mean of unit variance */
    assert_true(fabs(uniform / draws - 0.5) < tolerance);
    assert_true(fabs(exponential / draws - 1) < tolerance);
    assert_true(fabs(normal / draws) < tolerance);
    assert_true(fabs(square / draws - 1) < 2 * tolerance);
}

TEST(bounded_draws_hit_every_value_equally)
{
    random_stream stream = random_stream_make(test_seed("bounded", 2), RANDOM_TEST, 1, 0);
    int hits[7] = {0};
    for (int i = 0; i < 70000; i++)
        hits[random_below(&stream, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(hits[i], 9500, 10500);
}

TEST(a_shuffle_is_a_permutation)
{
    random_stream stream = random_stream_make(test_seed("shuffle", 3), RANDOM_TEST, 2, 0);
    uint32_t values[100];
    int seen[100] = {0}, moved = 0;
    for (uint32_t i = 0; i < 100; i++)
        values[i] = i;
    random_shuffle(&stream, values, 100);
    for (uint32_t i = 0; i < 100; i++) {
        seen[values[i]]++;
        moved += values[i] != i;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > 80);
}

TEST(streams_of_other_purpose_or_index_differ)
{
    random_stream base = random_stream_make(7, RANDOM_TEST, 0, 0);
    random_stream others[] = {
        random_stream_make(8, RANDOM_TEST, 0, 0), random_stream_make(7, RANDOM_DESIGN, 0, 0),
        random_stream_make(7, RANDOM_TEST, 1, 0), random_stream_make(7, RANDOM_TEST, 0, 1)};
    uint64_t first = random_u64(&base);
    for (int i = 0; i < 4; i++)
        assert_true(random_u64(&others[i]) != first);
}
