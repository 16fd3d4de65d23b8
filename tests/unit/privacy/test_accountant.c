/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <tarry/privacy.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

static tarry_privacy_settings settings_of(double noise, double sample, uint64_t steps)
{
    tarry_privacy_settings settings;
    tarry_privacy_settings_init(&settings);
    settings.noise = noise;
    settings.sample = sample;
    settings.steps = steps;
    return settings;
}

static double epsilon_of(const tarry_privacy_settings *settings, double delta,
                         tarry_accountant accountant)
{
    double epsilon;
    assert_int_equal(tarry_privacy_epsilon(settings, delta, accountant, NULL, &epsilon, NULL), 0);
    return epsilon;
}

TEST(the_best_is_the_lesser_of_both)
{
    tarry_privacy_settings settings = settings_of(1.5, 0.04, 2250);
    double renyi = epsilon_of(&settings, 1e-5, TARRY_ACCOUNTANT_RDP);
    double grid = epsilon_of(&settings, 1e-5, TARRY_ACCOUNTANT_PLD);
    assert_true(fabs(renyi - 7.32911117) < 1e-7);
    assert_true(fabs(grid - 6.76878) < 1e-4);
    assert_true(epsilon_of(&settings, 1e-5, TARRY_ACCOUNTANT_BEST) == grid);
}

TEST(nothing_shown_is_private)
{
    tarry_privacy_settings none = settings_of(1, 0.5, 0), nobody = settings_of(1, 0, 100);
    assert_true(epsilon_of(&none, 1e-5, TARRY_ACCOUNTANT_BEST) == 0);
    assert_true(epsilon_of(&nobody, 1e-5, TARRY_ACCOUNTANT_BEST) == 0);
}

TEST(delta_is_the_inverse)
{
    tarry_privacy_settings settings = settings_of(1.1, 0.02, 300);
    for (tarry_accountant one = TARRY_ACCOUNTANT_BEST; one <= TARRY_ACCOUNTANT_PLD; one++) {
        double delta, epsilon = epsilon_of(&settings, 1e-6, one);
        assert_int_equal(tarry_privacy_delta(&settings, epsilon, one, NULL, &delta, NULL), 0);
        assert_true(fabs(delta / 1e-6 - 1) < 1e-3);
    }
}

/* More noise, fewer steps and a larger delta never cost more, wherever one looks. */
TEST(epsilon_is_monotone)
{
    uint64_t seed = test_seed("epsilon_is_monotone", 1);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (int i = 0; i < (test_is_long() ? 100 : 3); i++) {
        double noise = pow(10, 2 * random_uniform(&stream) - 0.5);
        double sample = pow(10, -4 * random_uniform(&stream));
        uint64_t steps = (uint64_t)pow(10, 5 * random_uniform(&stream)) + 1;
        double delta = pow(10, -1 - 14 * random_uniform(&stream));
        tarry_privacy_settings one = settings_of(noise, sample, steps);
        tarry_privacy_settings quiet = settings_of(1.02 * noise, sample, steps);
        tarry_privacy_settings more = settings_of(noise, sample, steps + 1 + steps / 50);
        double epsilon = epsilon_of(&one, delta, TARRY_ACCOUNTANT_BEST);
        assert_true(isfinite(epsilon) && epsilon >= 0);
        assert_true(epsilon_of(&quiet, delta, TARRY_ACCOUNTANT_BEST) <= epsilon * (1 + 1e-9));
        assert_true(epsilon_of(&more, delta, TARRY_ACCOUNTANT_BEST) >= epsilon * (1 - 1e-9));
        assert_true(epsilon_of(&one, delta * 1.1, TARRY_ACCOUNTANT_BEST) <= epsilon * (1 + 1e-9));
    }
}

TEST(noise_is_as_little_as_is_enough)
{
    tarry_privacy_settings settings = settings_of(1, 0.04, 500);
    for (tarry_accountant one = TARRY_ACCOUNTANT_BEST; one <= TARRY_ACCOUNTANT_PLD; one++) {
        double noise;
        assert_int_equal(tarry_privacy_noise(&settings, 2, 1e-5, one, NULL, &noise, NULL), 0);
        tarry_privacy_settings enough = settings_of(noise, 0.04, 500);
        tarry_privacy_settings less = settings_of(noise * (1 - 1e-4), 0.04, 500);
        assert_true(epsilon_of(&enough, 1e-5, one) <= 2);
        assert_true(epsilon_of(&less, 1e-5, one) > 2);
    }
}

static void refuses(const tarry_privacy_settings *settings, double delta, const char *why)
{
    double epsilon = -1;
    tarry_diagnostic said = {""};
    assert_int_equal(
        tarry_privacy_epsilon(settings, delta, TARRY_ACCOUNTANT_BEST, NULL, &epsilon, &said),
        TARRY_ERROR_ARGUMENT);
    assert_string_equal(said.text, why);
    assert_true(epsilon == -1);
}

TEST(what_makes_no_sense_is_refused)
{
    tarry_privacy_settings settings = settings_of(0, 1, 1);
    refuses(&settings, 1e-5, "noise 0: 0.001 to 1e6 is wanted");
    settings = settings_of(NAN, 1, 1);
    refuses(&settings, 1e-5, "noise nan: 0.001 to 1e6 is wanted");
    settings = settings_of(1, 1.5, 1);
    refuses(&settings, 1e-5, "sample 1.5: 0 to 1 is wanted");
    settings = settings_of(1, 1, UINT64_MAX);
    refuses(&settings, 1e-5, "steps: at most 2^40 are wanted");
    settings = settings_of(1, 1, 1);
    refuses(&settings, 0, "delta 0: more than 0 and less than 1 is wanted");
    settings.size = 0;
    refuses(&settings, 1e-5, "privacy: settings that were not initialized");
    double noise;
    settings = settings_of(1, 1, UINT64_C(1) << 40);
    assert_int_equal(
        tarry_privacy_noise(&settings, 1e-9, 1e-15, TARRY_ACCOUNTANT_RDP, NULL, &noise, NULL),
        TARRY_ERROR_ARGUMENT);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_privacy_settings settings = settings_of(2, 0.5, 2);
    double epsilon;
    (void)user;
    return tarry_privacy_epsilon(&settings, 1e-5, TARRY_ACCOUNTANT_BEST, allocator, &epsilon, NULL);
}

TEST(memory_may_fail)
{
    assert_int_equal(fail_each_allocation(attempt, NULL), 10);
}
