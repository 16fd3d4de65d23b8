/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "failing_allocator.h"
#include "seed.h"
#include "straggler/straggler.h"

enum { WORKERS = 8, DRAWS = 40000 };

static tarry_straggler *make(const char *spec, uint64_t seed)
{
    tarry_straggler *straggler = NULL;
    assert_int_equal(tarry_straggler_create(spec, WORKERS, seed, NULL, &straggler, NULL), TARRY_OK);
    return straggler;
}

/* Mean and standard deviation, in seconds, of a term's draws over rounds and workers. */
static void moments(const char *spec, uint64_t base_ns, double *mean, double *deviation)
{
    tarry_straggler *straggler = make(spec, test_seed(spec, 11));
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t ns = tarry_straggler_time_ns(straggler, i / WORKERS, i % WORKERS, i % 5, base_ns);
        double seconds = (double)ns * 1e-9;
        sum += seconds;
        square += seconds * seconds;
    }
    *mean = sum / DRAWS;
    *deviation = sqrt(fmax(0, square / DRAWS - *mean * *mean));
    tarry_straggler_free(straggler);
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    double mean, deviation;
    const double five_sigma = 5 / sqrt(DRAWS);
    moments("exp:2", 0, &mean, &deviation);
    assert_true(fabs(mean / 2 - 1) < five_sigma && fabs(deviation / 2 - 1) < 3 * five_sigma);
    moments("exp:2/chunk", 0, &mean, &deviation);
    assert_true(fabs(mean / 2 - 1) < five_sigma && fabs(deviation / 2 - 1) < 3 * five_sigma);
    moments("shifted-exp:1,0.5", 3000000000, &mean, &deviation);
    assert_true(fabs(mean - 4.5) < five_sigma && fabs(deviation - 0.5) < 3 * five_sigma);
    /* Pareto(scale 1, shape 4): mean 4/3, variance 4/18. */
    moments("pareto:1,4", 0, &mean, &deviation);
    assert_true(fabs(mean - 4.0 / 3) < five_sigma && fabs(deviation - sqrt(4.0 / 18)) < 0.05);
    moments("jitter:0.1", 1000000000, &mean, &deviation);
    assert_true(fabs(mean - 1) < five_sigma && fabs(deviation - 0.1) < five_sigma);
    /* max(0, 1 + 2 N): mean Phi(1/2) + 2 phi(1/2) = 1.39560, and never below zero. */
    moments("jitter:2", 1000000000, &mean, &deviation);
    assert_true(fabs(mean - 1.39560) < 2 * five_sigma);
}

/* One factor for all draws of a pair, or one per position. */
static void draws_are_per_worker_or_per_chunk(void **state)
{
    (void)state;
    uint64_t seed = test_seed("per chunk", 5);
    tarry_straggler *worker = make("exp:1", seed), *chunk = make("exp:1/chunk", seed);
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint64_t first = tarry_straggler_time_ns(worker, 3, j, 0, 0);
        for (uint32_t position = 1; position < 6; position++) {
            assert_int_equal(tarry_straggler_time_ns(worker, 3, j, position, 0), first);
            assert_int_not_equal(tarry_straggler_time_ns(chunk, 3, j, position, 0),
                                 tarry_straggler_time_ns(chunk, 3, j, position - 1, 0));
        }
        assert_int_not_equal(tarry_straggler_time_ns(worker, 4, j, 0, 0), first);
        assert_int_not_equal(tarry_straggler_time_ns(worker, 3, (j + 1) % WORKERS, 0, 0), first);
    }
    tarry_straggler_free(worker);
    tarry_straggler_free(chunk);
}

/* A term's draws do not depend on the terms after it, and two equal terms draw anew. */
static void terms_draw_independently(void **state)
{
    (void)state;
    uint64_t seed = test_seed("terms", 6);
    tarry_straggler *one = make("exp:1", seed), *again = make("exp:1", seed);
    tarry_straggler *two = make("exp:1+exp:1", seed), *other = make("exp:1", seed + 1);
    for (uint32_t j = 0; j < WORKERS; j++) {
        uint64_t single = tarry_straggler_time_ns(one, 9, j, 2, 0);
        uint64_t both = tarry_straggler_time_ns(two, 9, j, 2, 0);
        assert_int_equal(tarry_straggler_time_ns(again, 9, j, 2, 0), single);
        assert_int_not_equal(tarry_straggler_time_ns(other, 9, j, 2, 0), single);
        assert_true(both > single);
        assert_true(fabs((double)both - 2 * (double)single) > 1000);
    }
    tarry_straggler_free(one);
    tarry_straggler_free(again);
    tarry_straggler_free(two);
    tarry_straggler_free(other);
}

static void dead_are_chosen_first_and_slow_among_the_rest(void **state)
{
    (void)state;
    uint64_t seed = test_seed("fates", 7);
    for (uint32_t trial = 0; trial < 50; trial++) {
        tarry_straggler *straggler = make("slow:2,5+dead:3+slow:8,7+dead:1", seed + trial);
        uint32_t dead = 0, five = 0, seven = 0;
        for (uint32_t j = 0; j < WORKERS; j++) {
            uint64_t ns = tarry_straggler_time_ns(straggler, trial, j, 0, 100);
            dead += tarry_straggler_dead(straggler, j) && ns == UINT64_MAX;
            five += ns == 500;
            seven += ns == 700;
        }
        assert_int_equal(dead, 4);
        assert_int_equal(five, 2);
        assert_int_equal(seven, 2);
        tarry_straggler_free(straggler);
    }
}

/* The dead of the one are the dead of the other: schemes meet the same workers. */
static void the_choice_depends_on_the_seed_alone(void **state)
{
    (void)state;
    uint64_t seed = test_seed("choice", 8);
    uint32_t chosen[WORKERS] = {0};
    for (uint32_t trial = 0; trial < 400; trial++) {
        tarry_straggler *one = make("dead:2", seed + trial);
        tarry_straggler *two = make("exp:1+dead:2+jitter:1", seed + trial);
        for (uint32_t j = 0; j < WORKERS; j++) {
            assert_int_equal(tarry_straggler_dead(one, j), tarry_straggler_dead(two, j));
            chosen[j] += tarry_straggler_dead(one, j);
        }
        tarry_straggler_free(one);
        tarry_straggler_free(two);
    }
    for (uint32_t j = 0; j < WORKERS; j++) /* 100 expected, deviation 8.7 */
        assert_in_range(chosen[j], 55, 145);
}

static void added_time_comes_before_factors(void **state)
{
    (void)state;
    /* With a mean of nothing a shifted exponential is a constant. */
    tarry_straggler *straggler = make("slow:8,3+shifted-exp:0.25,0", 1);
    for (uint32_t j = 0; j < WORKERS; j++)
        assert_int_equal(tarry_straggler_time_ns(straggler, 0, j, 0, 1000), 750003000);
    tarry_straggler_free(straggler);
}

static void nothing_changes_nothing(void **state)
{
    (void)state;
    const uint64_t odd = UINT64_MAX - 1; /* not a double */
    tarry_straggler *straggler = make("none+slow:0,9+dead:0+exp:0+pareto:0,1+jitter:0", 1);
    for (uint32_t j = 0; j < WORKERS; j++) {
        assert_false(tarry_straggler_dead(straggler, j));
        assert_true(tarry_straggler_time_ns(straggler, 1, j, 2, odd) == odd);
    }
    tarry_straggler_free(straggler);
    assert_false(tarry_straggler_dead(NULL, 3));
    assert_true(tarry_straggler_time_ns(NULL, 1, 2, 3, odd) == odd);
    tarry_straggler_free(NULL);
}

static void huge_values_saturate(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "exp:1e300",
        "shifted-exp:1e308,1e308",
        "pareto:1e300,1e-300",
        "pareto:1,0.001",
        "slow:8,1e308+jitter:1e308+exp:1e308",
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        tarry_straggler *straggler = make(specs[i], 3);
        uint32_t saturated = 0;
        for (uint32_t round = 0; round < 100; round++) {
            uint64_t ns = tarry_straggler_time_ns(straggler, round, 0, 0, UINT64_MAX);
            assert_true(ns == 0 || ns >= UINT64_MAX / 2);
            saturated += ns == UINT64_MAX;
        }
        assert_true(saturated > 30);
        tarry_straggler_free(straggler);
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_straggler *straggler;
    tarry_diagnostic diagnostic;
    int error = tarry_straggler_create(user, WORKERS, 1, allocator, &straggler, &diagnostic);
    if (error == TARRY_OK)
        tarry_straggler_free(straggler);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    char spec[] = "slow:1,2+dead:1+exp:1";
    assert_int_equal(fail_each_allocation(attempt, spec), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(draws_are_per_worker_or_per_chunk),
        cmocka_unit_test(terms_draw_independently),
        cmocka_unit_test(dead_are_chosen_first_and_slow_among_the_rest),
        cmocka_unit_test(the_choice_depends_on_the_seed_alone),
        cmocka_unit_test(added_time_comes_before_factors),
        cmocka_unit_test(nothing_changes_nothing),
        cmocka_unit_test(huge_values_saturate),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
