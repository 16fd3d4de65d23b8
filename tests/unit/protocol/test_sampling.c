/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of chunks, judged by all that can be drawn: of few chunks, every set of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "protocol/sampling.h"
#include "seed.h"

enum { MOST = 9, DIMENSION = 3, WORLDS = 60 };

typedef struct problem {
    uint32_t count;
    double wanted;
    double gradient[MOST][DIMENSION];
    float norm[MOST]; /* as the server knows it: of another round, or not at all */
    double chance[MOST];
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
    its.wanted = 1 + random_below(stream, its.count);
    for (uint32_t i = 0; i < its.count; i++) {
        double size = exp(2 * random_normal(stream));
        for (size_t k = 0; k < DIMENSION; k++)
            its.gradient[i][k] = size * random_normal(stream);
        double known = sqrt(dot(its.gradient[i], its.gradient[i]));
        its.norm[i] = (float)(known * exp(0.3 * random_normal(stream)));
        if (random_below(stream, 5) == 0)
            its.norm[i] = random_below(stream, 2) == 0 ? 0 : -1;
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
            likely *= in ? its->chance[i] : 1 - its->chance[i];
            for (size_t k = 0; in && k < DIMENSION; k++)
                sum[k] += its->gradient[i][k] / its->chance[i];
        }
        for (size_t k = 0; k < DIMENSION; k++) {
            mean[k] += likely * sum[k];
            apart[k] = sum[k] - all[k];
        }
        *variance += likely * dot(apart, apart);
    }
}

static void over_all_sets_the_mean_is_the_sum_and_the_variance_as_said(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("sampling", 1), RANDOM_TEST, 0, 0);
    for (uint32_t world = 0; world < WORLDS; world++) {
        problem its = draw_problem(&stream);
        bool uniform = random_below(&stream, 4) == 0;
        sampling_chances(uniform ? NULL : its.norm, its.count, its.wanted, its.chance);
        double mean[DIMENSION] = {0}, variance, sum[DIMENSION] = {0}, said = 0, size = 0;
        enumerate(&its, mean, &variance);
        for (uint32_t i = 0; i < its.count; i++) {
            double square = dot(its.gradient[i], its.gradient[i]);
            said += (1 / its.chance[i] - 1) * square;
            size += sqrt(square);
            for (size_t k = 0; k < DIMENSION; k++)
                sum[k] += its.gradient[i][k];
        }
        for (size_t k = 0; k < DIMENSION; k++)
            assert_true(fabs(mean[k] - sum[k]) <= 1e-11 * size);
        assert_true(fabs(variance - said) <= 1e-10 * (said + size * size));
    }
}

static void chances_are_proportional_above_a_floor_and_add_up(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("sampling", 2), RANDOM_TEST, 0, 0);
    for (uint32_t world = 0; world < 50 * WORLDS; world++) {
        problem its = draw_problem(&stream);
        sampling_chances(its.norm, its.count, its.wanted, its.chance);
        double sum = 0, known = 0, mean = 0;
        for (uint32_t i = 0; i < its.count; i++) {
            known += its.norm[i] >= 0;
            mean += its.norm[i] >= 0 ? (double)its.norm[i] : 0;
        }
        mean = known > 0 ? mean / known : 0;
        double times = 0, least = its.wanted / its.count / 11;
        for (uint32_t i = 0; i < its.count; i++) {
            double chance = its.chance[i];
            assert_true(chance <= 1 && chance >= least * (1 - 1e-12));
            sum += chance;
            double size = mean == 0 || its.norm[i] < 0 ? 1 : fmax((double)its.norm[i] / mean, 0.1);
            if (chance < 1 && times == 0)
                times = chance / size;
            if (chance < 1)
                assert_true(fabs(chance / size - times) <= 1e-9 * times);
        }
        for (uint32_t i = 0; i < its.count && times > 0; i++) { /* the certain ones would be more */
            double size = mean == 0 || its.norm[i] < 0 ? 1 : fmax((double)its.norm[i] / mean, 0.1);
            if (its.chance[i] == 1)
                assert_true(times * size >= 1 - 1e-9);
        }
        assert_true(fabs(sum - its.wanted) <= 1e-9 * its.wanted);
    }
}

/* No other chances of the same sum give less variance, if the norms are those of the gradients. */
static void no_chances_nearby_are_better(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("sampling", 3), RANDOM_TEST, 0, 0);
    for (uint32_t world = 0; world < 50 * WORLDS; world++) {
        uint32_t count = 2 + random_below(&stream, MOST - 1);
        float norm[MOST];
        double chance[MOST];
        for (uint32_t i = 0; i < count; i++)
            norm[i] = (float)exp(0.5 * random_normal(&stream));
        sampling_chances(norm, count, 1 + random_below(&stream, count), chance);
        uint32_t from = random_below(&stream, count), to = random_below(&stream, count);
        double step = 1e-3 * random_uniform(&stream) * chance[from];
        if (from == to || chance[to] + step > 1)
            continue;
        double a = (double)norm[from] * (double)norm[from], b = (double)norm[to] * (double)norm[to];
        double before = a / chance[from] + b / chance[to];
        double after = a / (chance[from] - step) + b / (chance[to] + step);
        bool floored = false; /* there the norms don't decide */
        for (uint32_t i = 0; i < count; i++)
            floored = floored || (double)norm[i] < 0.2;
        if (!floored)
            assert_true(after >= before * (1 - 1e-12));
    }
}

static void draws_are_as_frequent_as_their_chances_and_can_be_repeated(void **state)
{
    (void)state;
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

static void without_norms_all_are_equal(void **state)
{
    (void)state;
    const float zeros[4] = {0, 0, 0, 0}, unknown[4] = {-1, -1, -1, -1};
    const float *const sets[] = {NULL, zeros, unknown};
    for (size_t set = 0; set < 3; set++) {
        double chances[4];
        sampling_chances(sets[set], 4, 3, chances);
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(chances[i] - 0.75) < 1e-15);
    }
    const float one[4] = {8, -1, 0, 16};
    double chances[4];
    sampling_chances(one, 4, 1, chances); /* the mean of those known is 8; sizes 1, 1, 0.1, 2 */
    assert_true(fabs(chances[0] - 1 / 4.1) < 1e-8);
    assert_true(fabs(chances[1] - 1 / 4.1) < 1e-8);
    assert_true(fabs(chances[2] - 0.1 / 4.1) < 1e-8);
    assert_true(fabs(chances[3] - 2 / 4.1) < 1e-8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_all_sets_the_mean_is_the_sum_and_the_variance_as_said),
        cmocka_unit_test(chances_are_proportional_above_a_floor_and_add_up),
        cmocka_unit_test(no_chances_nearby_are_better),
        cmocka_unit_test(draws_are_as_frequent_as_their_chances_and_can_be_repeated),
        cmocka_unit_test(without_norms_all_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
