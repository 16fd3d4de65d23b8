/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dynamic order over sleeping threads, beside the simulator with the same plan and draws: sums
 * are exact, hardly anything is computed twice, and the slow don't hold up the others. What a busy
 * machine may change is bounded from one side only, or by the best of many rounds.
 */
#include <math.h>
#include <stdio.h>

#include <tarry/sim.h>

#include "summing.h"
#include "test.h"

enum { WORKERS = 8, PIECES = 8, ROUNDS = 6, ATTEMPTS = 5 };

/* 20 ms per chunk or somewhat more; two workers six times slower, the same ones in each round. */
#define SPEC "shifted-exp:0.02,0.005/run+slow:2,6"

typedef struct round_figures {
    double seconds;
    double balanced_seconds; /* no order takes less */
    double copies;           /* computed per piece */
} round_figures;

static double seconds_of(const tarry_round_result *result)
{
    return (double)(result->end_ns - result->start_ns) * 1e-9;
}

static double copies_of(const tarry_round_result *result)
{
    return (double)result->copies_computed / (double)result->copies_needed;
}

static void set_job(summing *job, tarry_pick pick)
{
    summing_init(job);
    job->straggler_spec = SPEC;
    job->plan_settings.workers = job->plan_settings.chunks = WORKERS;
    job->plan_settings.pieces = PIECES;
    job->local_settings.server.pick = pick;
}

/* The rounds of the simulator on the plan and the draws of a job that has begun. */
static void simulate(const summing *job, round_figures *rounds)
{
    tarry_sim_settings settings;
    tarry_sim_settings_init(&settings);
    settings.straggler = job->straggler;
    settings.chunk_ns = 0;
    settings.server.pick = job->local_settings.server.pick;
    tarry_sim *sim;
    assert_ok(tarry_sim_create(job->plan, &settings, NULL, &sim, NULL));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tarry_round_result result;
        tarry_sim_bounds bounds;
        assert_ok(tarry_sim_round(sim, &result));
        assert_true(result.exact);
        assert_ok(tarry_sim_bound(job->plan, &settings, round, 1, NULL, &bounds));
        rounds[round].seconds = seconds_of(&result);
        rounds[round].balanced_seconds = (double)bounds.balanced_ns * 1e-9;
        rounds[round].copies = copies_of(&result);
    }
    tarry_sim_free(sim);
}

/* Runs the rounds on threads; gives back the least time over balance, and the fewest copies. */
static void run(summing *job, const round_figures *simulated, double *ratio, double *copies)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tarry_round_result result;
        assert_ok(summing_round(job, &result, NULL));
        assert_true(result.exact);
        assert_true(summing_error(job) < 1e-5);
        double now = seconds_of(&result) / simulated[round].balanced_seconds;
        assert_true(now > 0.99);
        assert_true(copies_of(&result) >= 1);
        *ratio = fmin(*ratio, now);
        *copies = fmin(*copies, copies_of(&result));
    }
}

TEST(sleeping_workers_share_the_work)
{
    round_figures simulated[ROUNDS];
    summing job;
    double ratio = INFINITY, copies = INFINITY, ideal = 0;
    for (int attempt = 0; attempt < ATTEMPTS && !(ratio < 3 * ideal && copies < 1.1); attempt++) {
        set_job(&job, TARRY_PICK_SHARE);
        summing_begin(&job);
        simulate(&job, simulated);
        ideal = simulated[ROUNDS - 1].seconds / simulated[ROUNDS - 1].balanced_seconds;
        assert_true(ideal < 1.3);
        assert_true(simulated[ROUNDS - 1].copies < 1.1);
        run(&job, simulated, &ratio, &copies);
        summing_end(&job);
        printf("time / balanced: simulated %.3f, best of threads %.3f; copies %.3f\n", ideal, ratio,
               copies);
    }
    assert_true(ratio < 3 * ideal);
    assert_true(copies < 1.1);
}

/* The paper's order on the same plan and draws: the slow ones' chunks are computed elsewhere too,
 * but so are all others. */
TEST(a_static_order_computes_more)
{
    round_figures dynamic[ROUNDS], fixed[ROUNDS];
    for (int i = 0; i < 2; i++) {
        OWNED(summing) job;
        set_job(&job, i == 0 ? TARRY_PICK_SHARE : TARRY_PICK_PLAN);
        summing_begin(&job);
        simulate(&job, i == 0 ? dynamic : fixed);
    }
    for (int round = 0; round < ROUNDS; round++) {
        assert_true(fixed[round].copies > 1.5 * dynamic[round].copies);
        assert_true(fixed[round].seconds > 1.3 * dynamic[round].seconds);
    }
}
