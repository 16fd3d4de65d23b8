/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "privacy/accountant.h"
#include "privacy/keystream.h"
#include "seed.h"
#include "test.h"

enum { NUMBERS = 200001 }; /* odd: pairs don't come out even */

static float numbers[NUMBERS], others[NUMBERS];

static void draw(uint64_t seed, uint64_t release, double deviation, float *to, size_t count)
{
    privacy_keys keys;
    assert_int_equal(privacy_keys_of_seed(seed, &keys), 0);
    assert_int_equal(noise_add(keys.noise, release, deviation, to, count), 0);
}

static int compare(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Kolmogorov and Smirnov's: 2 / sqrt(n) is passed by chance once in 1,500 times; the grid adds what
 * a cell holds. */
TEST(noise_is_normal)
{
    uint64_t seed = test_seed("normal", 1);
    const double deviations[] = {1, 0.013, 3e7};
    for (size_t d = 0; d < 3; d++) {
        memset(numbers, 0, sizeof(numbers));
        draw(seed, d, deviations[d], numbers, NUMBERS);
        qsort(numbers, NUMBERS, sizeof(*numbers), compare);
        double most = 0;
        for (size_t i = 0; i < NUMBERS; i++) {
            double below = 1 - normal_tail(numbers[i] / deviations[d]);
            most = fmax(most, fabs(below - ((double)i + 0.5) / NUMBERS));
        }
        assert_true(most < 2 / sqrt(NUMBERS) + 0.4 / 256);
    }
}

TEST(moments_and_tails_are_those_of_a_normal)
{
    double mean = 0, square = 0, fourth = 0;
    size_t beyond[5] = {0};
    memset(numbers, 0, sizeof(numbers));
    draw(test_seed("moments", 2), 0, 2.5, numbers, NUMBERS);
    for (size_t i = 0; i < NUMBERS; i++) {
        double x = numbers[i] / 2.5;
        mean += x / NUMBERS;
        square += x * x / NUMBERS;
        fourth += x * x * x * x / NUMBERS;
        for (int k = 1; k < 5; k++)
            beyond[k] += fabs(x) > k;
    }
    const double unit = 5 / sqrt(NUMBERS); /* 5 deviations of a mean */
    assert_true(fabs(mean) < unit);
    assert_true(fabs(square - 1) < unit * sqrt(2));
    assert_true(fabs(fourth - 3) < unit * sqrt(96));
    for (int k = 1; k < 5; k++) {
        double expected = 2 * normal_tail(k) * NUMBERS;
        assert_true(fabs((double)beyond[k] - expected) < 5 * sqrt(expected) + expected * k / 128);
    }
}

static double correlation(const float *x, const float *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * y[i];
    return sum / (double)count;
}

TEST(numbers_and_releases_are_independent)
{
    uint64_t seed = test_seed("independent", 3);
    memset(numbers, 0, sizeof(numbers));
    memset(others, 0, sizeof(others));
    draw(seed, 1, 1, numbers, NUMBERS);
    draw(seed, 2, 1, others, NUMBERS);
    const double most = 5 / sqrt(NUMBERS);
    assert_true(fabs(correlation(numbers, others, NUMBERS)) < most);
    for (size_t shift = 1; shift < 5; shift++)
        assert_true(fabs(correlation(numbers, numbers + shift, NUMBERS - shift)) < 1.01 * most);
    for (size_t i = 0; i < NUMBERS; i++) {
        numbers[i] = numbers[i] * numbers[i] - 1;
        others[i] = others[i] * others[i] - 1;
    }
    assert_true(fabs(correlation(numbers, others, NUMBERS)) < 2 * most);
    assert_true(fabs(correlation(numbers, numbers + 1, NUMBERS - 1)) < 2 * most);
}

TEST(noise_goes_on_top_of_sums)
{
    float sum[1001], noise[1001] = {0};
    for (size_t i = 0; i < 1001; i++)
        sum[i] = (float)i * 0.77F;
    draw(9, 3, 0.5, sum, 1001);
    draw(9, 3, 0.5, noise, 1001);
    for (size_t i = 0; i < 1001; i++)
        assert_true(fabs(sum[i] - noise[i] - (double)i * 0.77) <= 1.01 * noise_grid(0.5));
}

/* Else the last bits of what comes out would tell which sum was behind it. */
TEST(what_comes_out_is_on_the_grid)
{
    for (double deviation = 1e-6; deviation < 1e6; deviation *= 3.7) {
        double grid = noise_grid(deviation);
        assert_true(grid <= deviation / 256 && grid > deviation / 512);
        for (size_t i = 0; i < 1000; i++)
            numbers[i] = (float)(0.1234567 * (double)i * deviation);
        draw(9, 3, deviation, numbers, 1000);
        for (size_t i = 0; i < 1000; i++)
            assert_true(numbers[i] / grid == rint(numbers[i] / grid));
    }
}
