/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "seed.h"
#include "test.h"
#include "world.h"

/* |estimate - truth|^2 / |truth|^2 */
static double squared_error(const world *all)
{
    const float *estimate = tarry_sim_estimate(all->sim);
    const double *truth = tarry_sim_truth(all->sim);
    double error = 0, square = 0;
    for (size_t i = 0; i < all->settings.dimension; i++) {
        error += (estimate[i] - truth[i]) * (estimate[i] - truth[i]);
        square += truth[i] * truth[i];
    }
    return error / square;
}

static void with_vectors(world *all, uint32_t parts, size_t dimension)
{
    world_init(all);
    all->plan_settings.parts = parts;
    all->plan_settings.replication = parts + 1;
    all->settings.dimension = dimension;
    all->settings.vectors = true;
    all->settings.seed = all->straggler_seed = test_seed("vectors", 11);
}

TEST(sums_are_exact)
{
    for (uint32_t parts = 1; parts <= 4; parts++) {
        OWNED(world) all;
        with_vectors(&all, parts, 1001);
        all.spec = "exp:1";
        all.settings.server.stripe_length = 100;
        world_begin(&all);
        double worst = 0;
        for (int round = 0; round < 50; round++) {
            tarry_round_result result = world_round(&all);
            assert_true(result.exact);
            worst = fmax(worst, sqrt(squared_error(&all)));
        }
        printf("%u parts: largest error of an exact sum %.1e\n", parts, worst);
        assert_true(worst < 1e-4);
    }
}

/* Running sums of what was credited, with workers that fall silent after some of it was. */
TEST(folded_sums_are_exact)
{
    const char *const specs[] = {"exp:1", "exp:1/chunk", "exp:1/chunk+fail:0.1+rejoin:3"};
    uint32_t lost = 0, attempts = 0;
    for (size_t i = 0; i < 6; i++) { /* then again with answers that take longer than chunks */
        OWNED(world) all;
        with_vectors(&all, 1, 101);
        all.plan_settings.replication = 4;
        all.plan_settings.chunks *= 2;
        all.spec = specs[i % 3];
        all.settings.server.keep = TARRY_KEEP_CREDITED;
        all.settings.server.stripe_length = 10;
        all.settings.server.silence_ns = SECOND / 10;
        all.settings.link.latency_ns = i < 3 ? SECOND / 100 : SECOND;
        if (i >= 3)
            all.settings.server.silence_ns = 20 * SECOND;
        world_begin(&all);
        for (int round = 0; round < 60; round++) {
            tarry_round_result result = world_round(&all);
            assert_ok(result.error);
            assert_true(result.exact);
            assert_int_equal(result.copies_coded, all.plan_settings.chunks);
            assert_true(squared_error(&all) < 1e-12);
            lost += result.workers_lost;
            attempts += result.attempts;
        }
    }
    assert_true(lost > 0 && attempts > 360);
}

TEST(sums_of_what_was_uploaded_at_once_are_exact)
{
    for (uint32_t parts = 0; parts <= 3; parts++) { /* 0: each gradient by itself */
        OWNED(world) all;
        with_vectors(&all, parts > 0 ? parts : 1, 100);
        all.spec = "exp:1/chunk";
        all.settings.upload = parts > 0 ? TARRY_SIM_UPLOAD_WHOLE : TARRY_SIM_UPLOAD_EACH;
        all.settings.server.credit = parts > 0 ? TARRY_CREDIT_WHOLE : TARRY_CREDIT_CHUNK;
        world_begin(&all);
        for (int round = 0; round < 50; round++) {
            assert_true(world_round(&all).exact);
            assert_true(squared_error(&all) < (parts > 1 ? 1e-8 : 1e-12));
        }
    }
}

/* Independent normal vectors: the squared error has the mean that psi promises, within its own
 * deviation. */
TEST(measured_error_is_the_expected_one)
{
    for (uint32_t parts = 1; parts <= 4; parts++) {
        OWNED(world) all;
        with_vectors(&all, parts, 2000);
        all.spec = "exp:1/chunk";
        all.settings.server.stop = TARRY_STOP_DEADLINE;
        all.settings.server.deadline_ns = SECOND;
        world_begin(&all);
        const int rounds = 200;
        double excess = 0, square = 0, expected = 0;
        for (int round = 0; round < rounds; round++) {
            tarry_round_result result = world_round(&all);
            double difference = squared_error(&all) - result.expected_error;
            excess += difference / rounds;
            square += difference * difference / rounds;
            expected += result.expected_error / rounds;
        }
        double deviation = sqrt((square - excess * excess) / rounds);
        printf("%u parts: expected error %.4f, measured - expected %.5f, its deviation %.5f\n",
               parts, expected, excess, deviation);
        assert_true(expected > 0.1 && expected < 0.9);
        assert_true(fabs(excess) <= 4 * deviation + 1e-9);
    }
}

/* Gradients are drawn anew in each round, so that those of the round before are off by twice their
 * square. */
TEST(stale_gradients_are_those_of_the_round_before)
{
    for (int each = 0; each < 2; each++) {
        OWNED(world) all;
        with_vectors(&all, 1, 20000);
        all.spec = "exp:1/chunk";
        all.settings.upload = each ? TARRY_SIM_UPLOAD_EACH : TARRY_SIM_UPLOAD_CODED;
        all.settings.server.stop = TARRY_STOP_DEADLINE;
        all.settings.server.deadline_ns = SECOND;
        all.settings.server.fill = TARRY_FILL_STALE;
        world_begin(&all);
        double filled = 0;
        for (int round = 0; round < 10; round++) {
            tarry_round_result result = world_round(&all);
            double promised = result.expected_error + result.filled_share;
            assert_true(fabs(squared_error(&all) - promised) < 0.1);
            filled += result.filled_share / 10;
        }
        printf("share filled %.3f\n", filled);
        assert_true(filled > 0.1);
    }
}

TEST(gradients_are_those_of_seed_and_round)
{
    double truth[4][3];
    for (int run = 0; run < 4; run++) {
        OWNED(world) all;
        with_vectors(&all, 1, 3);
        all.settings.seed += run == 3;
        all.settings.server.credit = run == 1 ? TARRY_CREDIT_WHOLE : TARRY_CREDIT_CHUNK;
        world_begin(&all);
        for (int round = 0; round <= (run == 2); round++)
            world_round(&all);
        memcpy(truth[run], tarry_sim_truth(all.sim), sizeof(truth[run]));
    }
    assert_memory_equal(truth[0], truth[1], sizeof(truth[0]));
    assert_memory_not_equal(truth[0], truth[2], sizeof(truth[0]));
    assert_memory_not_equal(truth[0], truth[3], sizeof(truth[0]));
}

WORLD(without_vectors_there_are_none)
{
    world_init(all);
    world_begin(all);
    world_round(all);
    assert_null(tarry_sim_estimate(all->sim));
    assert_null(tarry_sim_truth(all->sim));
}
