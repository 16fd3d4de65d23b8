/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both accountants at random settings, from almost no noise to much: what they claim is held to
 * what is known exactly. Oracles are in long double, and share no code with the accountants.
 *
 * TARRY_TEST_LONG=1 tries 2,000 settings instead of 70, and TARRY_TEST_SEED others.
 */
#include <math.h>
#include <stdio.h>

#include <tarry/privacy.h>

#include "base/random.h"
#include "privacy/accountant.h"
#include "seed.h"
#include "test.h"

enum { LONG_SETTINGS = 2000, SETTINGS = 70, CELLS = 1 << 13, POINTS = 4000 };
#define STEPS_MOST 1e12

typedef struct setting {
    double noise, sample;
    uint64_t steps;
    double delta;
} setting;

/* ---- oracles: log delta of epsilon ---- */

static long double log_add(long double a, long double b)
{
    long double most = fmaxl(a, b);
    return isinf(most) ? most : most + log1pl(expl(fminl(a, b) - most));
}

/* log P[N(0, 1) > x]; far out by the continued fraction of Mills' ratio. */
static long double log_tail(long double x)
{
    if (x < 50)
        return logl(erfcl(x / sqrtl(2)) / 2);
    long double fraction = x;
    for (int k = 50; k > 0; k--)
        fraction = x + k / fraction;
    return -x * x / 2 - logl(2 * acosl(-1)) / 2 - logl(fraction);
}

/* Steps in which all examples take part are one Gaussian mechanism with noise / sqrt(steps) (Balle
 * and Wang, arXiv 1805.06530, theorem 8). */
static long double log_delta_gaussian(const setting *one, long double epsilon)
{
    const long double s = one->noise / sqrtl((long double)one->steps);
    const long double with = log_tail(epsilon * s - 1 / (2 * s));
    const long double without = epsilon + log_tail(epsilon * s + 1 / (2 * s));
    return without < with ? with + logl(-expm1l(without - with)) : -INFINITY;
}

/* log of the mixture's density over the normal's at x. */
static long double log_ratio(const setting *one, long double x)
{
    const long double q = one->sample, s = one->noise, y = (2 * x - 1) / (2 * s * s);
    return y < 1 ? log1pl(q * expm1l(y)) : log_add(log1pl(-q), logl(q) + y);
}

/* log of the integrand max(0, P - e^epsilon Q): P is the mixture, Q the normal, or the reverse. */
static long double log_excess(const setting *one, bool removed, long double epsilon, long double x)
{
    const long double s = one->noise, ratio = log_ratio(one, x);
    const long double normal = -x * x / (2 * s * s) - logl(s * sqrtl(2 * acosl(-1)));
    const long double loss = removed ? ratio : -ratio;
    if (loss <= epsilon)
        return -INFINITY;
    return normal + (removed ? ratio : 0) + logl(-expm1l(epsilon - loss));
}

/* By Simpson's rule from a to b. */
static long double integrate(const setting *one, bool removed, long double epsilon, long double a,
                             long double b)
{
    long double sum = -INFINITY;
    for (int i = 0; i <= POINTS && a < b; i++) {
        const long double weight = i == 0 || i == POINTS ? 1 : i % 2 != 0 ? 4 : 2;
        const long double x = a + (b - a) * i / POINTS;
        sum = log_add(sum, log_excess(one, removed, epsilon, x) + logl(weight));
    }
    return sum + logl((b - a) / (3 * POINTS));
}

/* Of one step: the integral of max(0, P - e^epsilon Q) beyond the point at which the loss is
 * epsilon, over where the two normals have all but e^-800 of their mass. */
static long double log_delta_one_step(const setting *one, bool removed, long double epsilon)
{
    const long double far = 40 * (long double)one->noise;
    long double low = -far, high = 1 + far;
    if ((removed ? log_ratio(one, high) : -log_ratio(one, low)) <= epsilon)
        return -INFINITY;
    for (int i = 0; i < 200; i++) {
        const long double middle = (low + high) / 2;
        const bool above = (removed ? log_ratio(one, middle) : -log_ratio(one, middle)) > epsilon;
        *(above == removed ? &high : &low) = middle;
    }
    long double sum = -INFINITY;
    for (int centre = 0; centre <= 1; centre++) {
        long double a = centre - far, b = centre + far;
        if (centre == 1 && a < far)
            a = far; /* the other has it */
        a = removed ? fmaxl(a, low) : a;
        b = removed ? b : fminl(b, high);
        if (a < b)
            sum = log_add(sum, integrate(one, removed, epsilon, a, b));
    }
    return sum;
}

/* ---- the accountants ---- */

typedef struct claims {
    double pld, rdp;
} claims;

static double pld_of(const setting *one)
{
    const composed_aim aim = {one->delta, 0, CELLS};
    double worst = 0;
    for (loss_direction direction = LOSS_REMOVED; direction <= LOSS_ADDED; direction++) {
        const loss_mechanism step = {one->noise, one->sample, direction};
        composed_loss all;
        if (direction == LOSS_ADDED && one->sample == 1)
            break;
        assert_int_equal(composed_loss_make(&step, one->steps, &aim, NULL, &all), 0);
        const double found = composed_epsilon(&all, one->delta);
        composed_loss_free(&all, NULL);
        worst = isnan(found) ? NAN : fmax(worst, found);
    }
    return worst;
}

static claims claims_of(const setting *one)
{
    return (claims){pld_of(one), rdp_epsilon(one->noise, one->sample, one->steps, one->delta)};
}

static void fail_at(const setting *one, const char *accountant, double epsilon, const char *why)
{
    fail_msg("noise %.17g, sample %.17g, steps %llu, delta %.17g: %s claims epsilon %.9g: %s",
             one->noise, one->sample, (unsigned long long)one->steps, one->delta, accountant,
             epsilon, why);
}

/* delta is no larger than it may be, up to the precision of sums in double. */
static bool holds(long double log_delta, const setting *one)
{
    return log_delta <= logl(one->delta) + 1e-6L;
}

static void check_claim(const setting *one, const char *accountant, double epsilon)
{
    if (isnan(epsilon) || epsilon < 0)
        fail_at(one, accountant, epsilon, "this is not an epsilon");
    if (isinf(epsilon))
        return;
    if (one->sample == 1) {
        if (!holds(log_delta_gaussian(one, epsilon), one))
            fail_at(one, accountant, epsilon, "the Gaussian mechanism has a larger delta");
        return;
    }
    /* Any steps are at least as costly as one of them. */
    for (int removed = 0; removed <= 1; removed++)
        if (!holds(log_delta_one_step(one, removed, epsilon), one))
            fail_at(one, accountant, epsilon, "one step alone has a larger delta");
}

/* `more` costs as much as `less` at least. The slack is what the coarse grid may be above the truth
 * in one place and not in another. */
static void check_order(const setting *one, const char *what, claims less, claims more)
{
    if (less.rdp > more.rdp * (1 + 1e-6) + 1e-9)
        fail_at(one, "rdp", less.rdp, what);
    if (fmin(less.pld, less.rdp) > fmin(more.pld, more.rdp) * 1.02 + 0.05)
        fail_at(one, "best", fmin(less.pld, less.rdp), what);
}

static void check_monotone(const setting *one, claims found)
{
    setting other = *one;
    other.noise = one->noise * 1.3;
    check_order(one, "more noise costs more", claims_of(&other), found);
    other = *one;
    other.steps = 2 * one->steps;
    check_order(one, "more steps cost less", found, claims_of(&other));
    other = *one;
    other.sample = fmin(1, one->sample * 1.3);
    check_order(one, "more sampling costs less", found, claims_of(&other));
    other = *one;
    other.delta = fmin(0.99, one->delta * 3);
    check_order(one, "a larger delta costs more", claims_of(&other), found);
}

/* ---- the public functions, with their fine grid ---- */

static double epsilon_of(const setting *one, tarry_accountant accountant)
{
    tarry_privacy_settings settings;
    double epsilon;
    tarry_privacy_settings_init(&settings);
    settings.noise = one->noise;
    settings.sample = one->sample;
    settings.steps = one->steps;
    assert_ok(tarry_privacy_epsilon(&settings, one->delta, accountant, NULL, &epsilon, NULL));
    return epsilon;
}

/* What a claim is above the truth at most, where the truth is known: an epsilon that is smaller by
 * so much has a larger delta. */
static void check_tight(const setting *one, double epsilon)
{
    const double less = epsilon * (1 - 1e-3) - 1e-6;
    long double truth = one->sample == 1 ? log_delta_gaussian(one, less) : -INFINITY;
    for (int removed = 0; removed <= 1 && one->sample < 1; removed++)
        truth = fmaxl(truth, log_delta_one_step(one, removed, less));
    if (less > 0 && holds(truth, one))
        fail_at(one, "pld", epsilon, "this is more than it costs");
}

static double between(random_stream *stream, double low, double high)
{
    return low * pow(high / low, random_uniform(stream));
}

static setting draw(random_stream *stream, int number)
{
    return (setting){
        .noise = between(stream, 1e-3, 50),
        .sample = number % 3 == 0 ? 1 : between(stream, number % 7 == 0 ? 1e-12 : 1e-4, 1),
        .steps =
            number % 4 == 0 ? 1 : (uint64_t)between(stream, 1, number % 5 == 0 ? STEPS_MOST : 1e5),
        .delta = between(stream, number % 9 == 0 ? 1e-300 : 1e-15, 0.9),
    };
}

TEST(claims_hold_at_random_settings)
{
    uint64_t seed = test_seed("claims_hold_at_random_settings", 31);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (int i = 0; i < (test_is_long() ? LONG_SETTINGS : SETTINGS); i++) {
        const setting one = draw(&stream, i);
        const claims found = claims_of(&one);
        check_claim(&one, "pld", found.pld);
        check_claim(&one, "rdp", found.rdp);
        if (!isfinite(fmin(found.pld, found.rdp)))
            fail_at(&one, "each", found.rdp, "there is no bound");
        check_monotone(&one, found);
    }
}

/* With the grid that users get: also tight, if there is one step or all examples take part. */
TEST(the_accountants_hold_and_are_tight)
{
    uint64_t seed = test_seed("the_accountants_hold_and_are_tight", 32);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (int i = 0; i < (test_is_long() ? 200 : 8); i++) {
        setting one = draw(&stream, i);
        const double pld = epsilon_of(&one, TARRY_ACCOUNTANT_PLD);
        const double best = epsilon_of(&one, TARRY_ACCOUNTANT_BEST);
        check_claim(&one, "pld", pld);
        check_claim(&one, "best", best);
        if (!isfinite(best) || best > pld)
            fail_at(&one, "best", best, "this is not the lesser");
        if (one.steps == 1 || (one.sample == 1 && one.steps < 1000000))
            check_tight(&one, pld);
        one.noise *= 1.1;
        if (epsilon_of(&one, TARRY_ACCOUNTANT_BEST) > best * (1 + 1e-4) + 1e-6)
            fail_at(&one, "best", best, "more noise costs more");
    }
}

/* The noise that is found for an epsilon costs at most that, and by the exact figures, too. */
TEST(noise_for_an_epsilon_is_enough)
{
    const double epsilons[] = {2000, 1e5, 30, 1, 0.01};
    for (size_t i = 0; i < (test_is_long() ? 5 : 1); i++)
        for (tarry_accountant by = TARRY_ACCOUNTANT_BEST; by <= TARRY_ACCOUNTANT_PLD; by++) {
            tarry_privacy_settings settings;
            setting one = {1, i % 2 == 0 ? 0.2 : 1, i % 2 == 0 ? 10 : 3, 1e-5};
            tarry_privacy_settings_init(&settings);
            settings.sample = one.sample;
            settings.steps = one.steps;
            assert_ok(
                tarry_privacy_noise(&settings, epsilons[i], one.delta, by, NULL, &one.noise, NULL));
            const double found = epsilon_of(&one, by);
            if (!(found <= epsilons[i] && found > 0.99 * epsilons[i]))
                fail_at(&one, "the accountant", found, "this is not what was asked for");
            check_claim(&one, "the accountant", found);
        }
}

/* Little noise made exponents overflow; moments above 1 by less than a double's last bit were 1. */
TEST(little_noise_and_small_samples_cost_something)
{
    for (double noise = 1e-3; noise < 0.03; noise *= 2) {
        const setting all = {noise, 1, 1, 1e-5}, some = {noise, 0.01, 100, 1e-5};
        assert_true(epsilon_of(&all, TARRY_ACCOUNTANT_BEST) > 1 / (2 * noise * noise));
        assert_true(epsilon_of(&some, TARRY_ACCOUNTANT_BEST) > 1 / (2 * noise * noise));
    }
    /* log(1 + q^2 (e - 1)), of which a sum near 1 leaves nothing */
    assert_true(fabs(rdp_of_order(1, 1e-9, 2) / (1e-18 * expm1(1)) - 1) < 1e-9);
    assert_true(rdp_of_order(1, 1e-9, 1.5) > 0);
}
