/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of chunks, judged by all that can be drawn: of few chunks, every set of them. */
#include <math.h>

#include "base/random.h"
#include "protocol/server/server_state.h"
#include "seed.h"
#include "test.h"

enum { MOST = 9, DIMENSION = 3, WORLDS = 60 };

typedef struct problem {
    uint32_t count;
    double chance;
    double gradient[MOST][DIMENSION];
} problem;

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < DIMENSION; i++)
        sum += a[i] * b[i];
    return sum;
}

static problem draw_problem(random_stream *stream)
{
    problem its = {.count = 1 + random_below(stream, MOST)};
    its.chance = (1 + random_below(stream, its.count)) / (double)its.count;
    for (uint32_t i = 0; i < its.count; i++) {
        double size = exp(2 * random_normal(stream));
        for (size_t k = 0; k < DIMENSION; k++)
            its.gradient[i][k] = size * random_normal(stream);
    }
    return its;
}

/* Over all sets: the mean of the sum, and the mean square of its distance from the sum of all. */
static void enumerate(const problem *its, double mean[DIMENSION], double *variance)
{
    double all[DIMENSION] = {0};
    for (uint32_t i = 0; i < its->count; i++)
        for (size_t k = 0; k < DIMENSION; k++)
            all[k] += its->gradient[i][k];
    *variance = 0;
    for (uint32_t set = 0; set < UINT32_C(1) << its->count; set++) {
        double likely = 1, sum[DIMENSION] = {0}, apart[DIMENSION];
        for (uint32_t i = 0; i < its->count; i++) {
            bool in = (set >> i & 1) != 0;
            likely *= in ? its->chance : 1 - its->chance;
            for (size_t k = 0; in && k < DIMENSION; k++)
                sum[k] += its->gradient[i][k] / its->chance;
        }
        for (size_t k = 0; k < DIMENSION; k++) {
            mean[k] += likely * sum[k];
            apart[k] = sum[k] - all[k];
        }
        *variance += likely * dot(apart, apart);
    }
}

TEST(over_all_sets_the_mean_is_the_sum_and_the_variance_as_said)
{
    random_stream stream = random_stream_make(test_seed("sampling", 1), RANDOM_TEST, 0, 0);
    for (uint32_t world = 0; world < WORLDS; world++) {
        problem its = draw_problem(&stream);
        double mean[DIMENSION] = {0}, variance, sum[DIMENSION] = {0}, said = 0, size = 0;
        enumerate(&its, mean, &variance);
        for (uint32_t i = 0; i < its.count; i++) {
            double square = dot(its.gradient[i], its.gradient[i]);
            said += (1 / its.chance - 1) * square;
            size += sqrt(square);
            for (size_t k = 0; k < DIMENSION; k++)
                sum[k] += its.gradient[i][k];
        }
        for (size_t k = 0; k < DIMENSION; k++)
            assert_true(fabs(mean[k] - sum[k]) <= 1e-11 * size);
        assert_true(fabs(variance - said) <= 1e-10 * (said + size * size));
    }
}

TEST(draws_are_as_frequent_as_their_chances_and_can_be_repeated)
{
    enum { ROUNDS = 20000 };
    const uint64_t seed = test_seed("sampling", 4);
    const double chances[] = {1, 0.9, 0.5, 0.1, 0.01};
    uint32_t together = 0;
    for (uint32_t chunk = 0; chunk < 5; chunk++) {
        uint32_t drawn = 0;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            bool is = sampling_draws(seed, round, chunk, chances[chunk]);
            assert_int_equal(is, sampling_draws(seed, round, chunk, chances[chunk]));
            drawn += is;
            together += chunk == 1 && is && sampling_draws(seed, round, 2, chances[2]);
        }
        double p = chances[chunk], off = 6 * sqrt(p * (1 - p) / ROUNDS);
        assert_true(fabs((double)drawn / ROUNDS - p) <= off);
    }
    assert_true(fabs((double)together / ROUNDS - 0.45) <= 6 * sqrt(0.25 / ROUNDS));
    uint32_t same = 0; /* rounds that differ above 32 bits are other rounds */
    for (uint32_t chunk = 0; chunk < 1000; chunk++)
        same += sampling_draws(seed, 7, chunk, 0.5) ==
                sampling_draws(seed, 7 | UINT64_C(1) << 32, chunk, 0.5);
    assert_in_range(same, 400, 600);
}
