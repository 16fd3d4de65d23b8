/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attack on the whole way of a sum, from the samples over draws, clipping, workers and decoding
 * to the noise: it guesses from what is released, in one round or in ten, whether one sample, the
 * canary, was there. What the guesses are worth bounds epsilon from below, with 99 % confidence
 * (Jagielski, Ullman, Oprea, arXiv 2006.07709). The bound may not exceed the claim; with an error
 * planted it does.
 */
#include <math.h>
#include <stdio.h>

#include <tarry/local.h>
#include <tarry/privacy.h>
#include <tarry/settings.h>

#include "cli/job/gradients.h"
#include "cli/options/options.h"
#include "cli/train/train_job.h"
#include "seed.h"
#include "test.h"

enum { ROWS = 8, FEATURES = 3, CANARY = 5, WORKERS = 2, CHUNKS = 4 };

static const double epsilon = 1, sample = 0.5, clip = 1;

/* Trainings of so many rounds, with that noise; and from how much evidence on the canary is guessed
 * to be there: from as much as is claimed would be best where the claim is tight and the noise
 * right, less finds errors better. */
typedef struct trainings {
    uint32_t trials, rounds;
    double noise, evidence;
} trainings;

static const trainings one_round = {2000, 1, 0.7, 0.6}, ten_rounds = {1000, 10, 1.8, 0.35};

typedef struct plant {
    double noise, clip; /* factors of what the claim is made of */
    bool twice;         /* the canary's chunk is added twice */
} plant;

static const plant no_plant = {1, 1, false};

typedef struct pipeline {
    chunk_gradient *gradients;
    bool twice;
} pipeline;

static int compute(void *user, const tarry_task *task)
{
    const pipeline *own = user;
    int failed = chunk_gradient_compute(own->gradients, task);
    if (own->twice && task->spans[0].origin == CANARY * CHUNKS / ROWS)
        for (size_t i = 0; i < task->dimension; i++)
            task->gradient[i] *= 2;
    return failed;
}

static tarry_plan *make_plan(tarry_settings *settings)
{
    tarry_plan *plan;
    tarry_conflict conflict;
    tarry_settings_init(settings);
    settings->plan.workers = WORKERS;
    settings->plan.chunks = CHUNKS;
    settings->plan.replication = 2;
    settings->plan.pieces = 1;
    settings->noised = true;
    assert_ok(tarry_settings_settle(settings, 0, &conflict));
    assert_ok(tarry_plan_create(&settings->plan, NULL, &plan, NULL));
    return plan;
}

static float release(tarry_runtime *runtime, tarry_dp *privacy)
{
    const float parameters[FEATURES] = {0};
    float sum[FEATURES];
    tarry_round_result result;
    assert_ok(tarry_runtime_round(runtime, parameters, sum, &result, NULL));
    assert_ok(train_privacy_release(privacy, &result, sum, FEATURES, NULL));
    return sum[0];
}

/* How much more likely a released number is with the canary, which adds -clip to the first number
 * where it is drawn, and nobody else does; the logarithm. */
static double evidence(double number, double deviation)
{
    double drawn = exp(-clip * (2 * number + clip) / (2 * deviation * deviation));
    return log(1 - sample + sample * drawn);
}

/* Trainings that are guessed to have the canary. */
static uint32_t guesses(const trainings *of, tarry_runtime *runtime, tarry_dp *privacy)
{
    uint32_t hits = 0;
    for (uint32_t trial = 0; trial < of->trials; trial++) {
        double sum = 0;
        for (uint32_t round = 0; round < of->rounds; round++)
            sum += evidence(release(runtime, privacy), of->noise * clip);
        hits += sum > of->evidence;
    }
    return hits;
}

static uint32_t attack(const trainings *of, uint64_t seed, bool there, const plant *planted)
{
    float value[ROWS * FEATURES] = {0}, label[ROWS];
    for (size_t row = 0; row < ROWS; row++) {
        label[row] = 1;
        value[row * FEATURES + 1] = (float)row;
        value[row * FEATURES + 2] = 1;
    }
    memset(value + CANARY * FEATURES, 0, FEATURES * sizeof(*value));
    value[CANARY * FEATURES] = there ? 10 : 0;
    const dataset data = {
        .rows = ROWS, .features = FEATURES, .classes = 2, .value = value, .label = label};
    const objective_settings model_settings = {.model = MODEL_LOGISTIC, .features = FEATURES};
    const batch_settings batch = {.rows = ROWS, .chunks = CHUNKS};
    const tarry_dp_terms option = {.size = sizeof(option),
                                   .clip = clip,
                                   .noise = of->noise * planted->noise,
                                   .sample = sample,
                                   .delta = 1e-5,
                                   .budget = INFINITY,
                                   .seeded = true,
                                   .seed = seed};
    objective *model;
    tarry_dp *privacy;
    pipeline own = {.twice = planted->twice};
    assert_ok(objective_create(&model_settings, NULL, &model, NULL));
    assert_int_equal(train_privacy_create(&option, ROWS, NULL, &privacy), OPTIONS_PROCEED);
    assert_ok(chunk_gradient_create(model, &data, &batch, WORKERS, &own.gradients));
    assert_ok(chunk_gradient_sample(own.gradients, dp_draws(privacy), clip * planted->clip));
    tarry_settings settings;
    tarry_plan *plan = make_plan(&settings);
    tarry_local_settings local;
    tarry_local_settings_init(&local);
    local.server = settings.server;
    local.parameters = local.dimension = FEATURES;
    local.compute = compute;
    local.user = &own;
    tarry_runtime *runtime;
    assert_ok(tarry_local_create(plan, &local, NULL, &runtime, NULL));
    uint32_t hits = guesses(of, runtime, privacy);
    tarry_runtime_free(runtime, true);
    tarry_plan_free(plan);
    chunk_gradient_free(own.gradients);
    tarry_dp_free(privacy);
    objective_free(model);
    return hits;
}

/* P[at least `hits` of `trials`], each with that chance. */
static double at_least(uint32_t trials, uint32_t hits, double chance)
{
    double sum = 0;
    for (uint32_t k = hits; k <= trials; k++)
        sum += exp(lgamma(trials + 1.0) - lgamma(k + 1.0) - lgamma(trials - k + 1.0) +
                   k * log(chance) + (trials - k) * log1p(-chance));
    return sum;
}

/* Clopper and Pearson's bound: the least chance with which so many hits are no surprise. */
static double least_chance(uint32_t trials, uint32_t hits)
{
    const double surprise = 0.005; /* two bounds: 99 % for both */
    double low = 0, high = 1;
    if (hits == 0)
        return 0;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (at_least(trials, hits, middle) < surprise)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double most_chance(uint32_t trials, uint32_t hits)
{
    return 1 - least_chance(trials, trials - hits);
}

/* Of events with these numbers of hits, with and without the canary, or the other way round. */
static double epsilon_at_least(uint32_t trials, uint32_t with, uint32_t without, double delta)
{
    double gain = least_chance(trials, with) - delta;
    return gain > 0 ? log(gain / most_chance(trials, without)) : 0;
}

static double claimed_delta(const trainings *of)
{
    tarry_privacy_settings settings;
    double delta;
    tarry_privacy_settings_init(&settings);
    settings.noise = of->noise;
    settings.sample = sample;
    settings.steps = of->rounds;
    assert_ok(tarry_privacy_delta(&settings, epsilon, TARRY_ACCOUNTANT_BEST, NULL, &delta, NULL));
    return delta;
}

static double audit(const trainings *of, const plant *planted)
{
    uint64_t seed = test_seed("audit", 6);
    double delta = claimed_delta(of);
    uint32_t trials = of->trials, with = attack(of, seed, true, planted),
             without = attack(of, seed + 1, false, planted);
    double found = fmax(epsilon_at_least(trials, with, without, delta),
                        epsilon_at_least(trials, trials - without, trials - with, delta));
    printf("claimed after %u rounds: epsilon %g with delta %.4f; %u and %u of %u guesses: at least "
           "%.3f\n",
           of->rounds, epsilon, delta, with, without, trials, found);
    return found;
}

TEST(the_attack_finds_no_more_than_is_claimed)
{
    double found = audit(&one_round, &no_plant);
    assert_true(found <= epsilon);
    assert_true(found > 0.3); /* it is an attack: next to the claim, not next to nothing */
}

TEST(nor_after_ten_rounds)
{
    double found = audit(&ten_rounds, &no_plant);
    assert_true(found <= epsilon);
    assert_true(found > 0.3);
}

TEST(half_the_noise_is_found)
{
    const plant planted = {0.5, 1, false};
    assert_true(audit(&one_round, &planted) > epsilon);
    assert_true(audit(&ten_rounds, &planted) > epsilon);
}

TEST(clipping_that_is_skipped_is_found)
{
    const plant planted = {1, 1e6, false};
    assert_true(audit(&one_round, &planted) > epsilon);
}

TEST(a_sample_that_is_drawn_twice_is_found)
{
    const plant planted = {1, 1, true};
    assert_true(audit(&one_round, &planted) > epsilon);
    assert_true(audit(&ten_rounds, &planted) > epsilon);
}
