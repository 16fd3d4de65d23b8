/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "failing_allocator.h"
#include "model.h"
#include "plan/plan.h"
#include "seed.h"
#include "test.h"
#include "world.h"

/* ---- ring ---- */

TEST(a_ring_takes_its_formula)
{
    world all;
    lone_copies(&all, 4, 1, NULL);
    all.settings.dimension = 1000;
    all.settings.parameter_bytes = 1000000; /* never travel */
    all.settings.link = (tarry_sim_link){.latency_ns = MILLISECOND, .bytes_per_second = 1e6};
    all.settings.server_bytes_per_second = 1;
    tarry_round_result result = lone_round(&all, (baseline_settings){.kind = BASELINE_ALL_REDUCE});
    assert_true(result.exact);
    /* 250 numbers take 1 ms: 2 (m - 1) (latency + 4 d / m / bandwidth) after the chunk. */
    assert_int_equal(result.end_ns, SECOND + 6 * (1 + 1) * MILLISECOND);
    assert_int_equal(result.upload_bytes, 6 * 4 * 1000);
}

/* The same numbers travel, with two latencies in all. */
WORLD(direct_sums_take_their_formula)
{
    lone_copies(all, 4, 1, NULL);
    all->settings.dimension = 1000;
    all->settings.link = (tarry_sim_link){.latency_ns = MILLISECOND, .bytes_per_second = 1e6};
    world_begin(all);
    baseline *model =
        begin_summing(all, (baseline_settings){.kind = BASELINE_ALL_REDUCE}, TARRY_SIM_DIRECT);
    tarry_round_result result = model_round(model);
    assert_int_equal(result.end_ns, SECOND + (2 + 6) * MILLISECOND);
    assert_int_equal(result.upload_bytes, 6 * 4 * 1000);
    baseline_free(model);
    /* DropCompute's sum is made of what workers have at their deadline. */
    model = begin_summing(
        all, (baseline_settings){.kind = BASELINE_DROPCOMPUTE, .deadline_ns = SECOND / 2},
        TARRY_SIM_DIRECT);
    result = model_round(model);
    assert_int_equal(result.end_ns, SECOND / 2 + (2 + 6) * MILLISECOND);
    assert_int_equal(result.copies_coded, 0);
    baseline_free(model);
}

static uint64_t ring_ready(const uint64_t *done, uint32_t workers, uint32_t worker, uint32_t step);

/* When the worker begins to send in the step, by definition. */
static uint64_t ring_sends(const uint64_t *done, uint32_t workers, uint32_t worker, uint32_t step)
{
    uint64_t ready = ring_ready(done, workers, worker, step);
    return step == 0
               ? ready
               : network_later(ready, ring_sends(done, workers, worker, step - 1) + MILLISECOND);
}

static uint64_t ring_ready(const uint64_t *done, uint32_t workers, uint32_t worker, uint32_t step)
{
    if (step == 0)
        return done[worker];
    uint32_t before = (worker + workers - 1) % workers;
    return network_later(done[worker], ring_sends(done, workers, before, step - 1) + MILLISECOND +
                                           3 * MILLISECOND);
}

TEST(uneven_rings_go_by_their_recursion)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        enum { WORKERS = 4 };
        OWNED(world) all;
        lone_copies(&all, WORKERS, 1, "shifted-exp:0.001,0.01");
        all.straggler_seed = test_seed("baseline", 5) + seed;
        all.settings.dimension = 1000;
        all.settings.link =
            (tarry_sim_link){.latency_ns = 3 * MILLISECOND, .bytes_per_second = 1e6};
        world_begin(&all);
        uint64_t done[WORKERS], end = 0;
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            done[worker] = tarry_straggler_time_ns(all.straggler, 0, worker, 0, worker, 1, 0);
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            end = network_later(end, ring_ready(done, WORKERS, worker, 2 * (WORKERS - 1)));
        OWNED(baseline) model = begin_model(&all, (baseline_settings){.kind = BASELINE_ALL_REDUCE});
        assert_int_equal(model_round(model).end_ns, end);
    }
}

TEST(a_ring_ends_without_a_sum_when_a_worker_dies)
{
    world all;
    lone_copies(&all, 5, 1, "dead:1");
    all.settings.server.silence_ns = 7 * SECOND;
    tarry_round_result result = lone_round(&all, (baseline_settings){.kind = BASELINE_ALL_REDUCE});
    assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
    assert_int_equal(result.end_ns, 7 * SECOND);
    assert_int_equal(result.workers_lost, 1);
}

/* ---- beside the machines ---- */

/* Without a deadline, and as a ring without links, a round is the uncoded one, to the nanosecond.
 */
TEST(models_meet_the_draws_of_the_machines)
{
    for (uint32_t pieces = 1; pieces <= 4; pieces += 3) {
        OWNED(world) all;
        lone_copies(&all, 12, pieces, "exp:1/chunk+jitter:0.2/run+slow:2,3");
        all.straggler_seed = test_seed("baseline", 5);
        all.settings.upload = TARRY_SIM_UPLOAD_WHOLE;
        if (pieces == 1) { /* with more, the machines report each */
            all.settings.dimension = all.settings.parameter_bytes = 100000;
            all.settings.link =
                (tarry_sim_link){.latency_ns = 5 * MILLISECOND, .bytes_per_second = 1e6};
            all.settings.server_bytes_per_second = 2e6;
        }
        world_begin(&all);
        OWNED(baseline)
        drop = begin_model(
            &all, (baseline_settings){.kind = BASELINE_DROPCOMPUTE, .deadline_ns = TARRY_NEVER});
        OWNED(baseline) ring = begin_model(&all, (baseline_settings){.kind = BASELINE_ALL_REDUCE});
        for (int round = 0; round < 5; round++) {
            tarry_round_result machine = world_round(&all), model = model_round(drop);
            assert_true(machine.exact && model.exact);
            assert_true(model.expected_error == 0);
            assert_int_equal(model.copies_computed, 12 * pieces);
            if (round == 0 || pieces > 1) /* later ones wait behind the machines' signals */
                assert_int_equal(model.end_ns, machine.end_ns);
            model = model_round(ring);
            if (pieces > 1)
                assert_int_equal(model.end_ns, machine.end_ns);
        }
    }
}

/* ---- DropCompute ---- */

/* Of two workers, whose pieces take 0.25 s and 0.75 s, the slow one has two at 1.5 s. */
TEST(workers_stop_at_their_own_deadline)
{
    world all;
    lone_copies(&all, 2, 4, "slow:1,3");
    baseline_settings own = {.kind = BASELINE_DROPCOMPUTE, .deadline_ns = 3 * SECOND / 2};
    tarry_round_result result = lone_round(&all, own);
    assert_int_equal(result.end_ns, 3 * SECOND / 2);
    assert_int_equal(result.copies_coded, 6);
    assert_true(result.expected_error == 0.25 && !result.exact);
    own.deadline_ns -= 1;
    result = lone_round(&all, own);
    assert_int_equal(result.copies_coded, 5);
    own.deadline_ns = 100 * SECOND; /* nobody waits for it */
    result = lone_round(&all, own);
    assert_int_equal(result.end_ns, 3 * SECOND);
    assert_true(result.exact);
    /* The deadline is of compute time: it begins when the parameters are there. */
    all.settings.link.latency_ns = 10 * MILLISECOND;
    own.deadline_ns = 3 * SECOND / 2;
    result = lone_round(&all, own);
    assert_int_equal(result.end_ns, 3 * SECOND / 2 + 20 * MILLISECOND);
    assert_int_equal(result.copies_coded, 6);
}

WORLD(the_dead_are_noticed_and_left_out)
{
    lone_copies(all, 4, 2, "dead:1");
    all->settings.server.silence_ns = 5 * SECOND;
    world_begin(all);
    OWNED(baseline)
    model = begin_model(
        all, (baseline_settings){.kind = BASELINE_DROPCOMPUTE, .deadline_ns = 9 * SECOND});
    tarry_round_result first = model_round(model), second = model_round(model);
    assert_int_equal(first.end_ns, 5 * SECOND);
    assert_int_equal(second.end_ns - second.start_ns, SECOND);
    assert_true(first.expected_error == 0.25 && second.expected_error == 0.25);
}

static double phi(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

/* The x with phi(x) = p. */
static double phi_inverse(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (phi(middle) < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * Giladi et al., section 4.2: with Gaussian micro-batches (mu, sigma^2), M of them on each of N
 * workers, E[M~(tau)] = sum_m phi((tau - m mu) / (sqrt(m) sigma)), and the time of all, the largest
 * of N Gaussians, is about M mu + sqrt(M) sigma ((1 - gamma) phi^-1(1 - 1 / N) + gamma phi^-1(1 - 1
 * / (e N))). The effective speedup is E[M~] / M * (T + T_c) / (min(tau, T) + T_c).
 */
static double closed_form(double tau, uint32_t pieces, uint32_t workers, double mu, double sigma,
                          double *share)
{
    const double gamma = 0.5772156649;
    double done = 0, n = workers;
    for (uint32_t m = 1; m <= pieces; m++)
        done += phi((tau - m * mu) / (sqrt(m) * sigma));
    double all = pieces * mu + sqrt(pieces) * sigma *
                                   ((1 - gamma) * phi_inverse(1 - 1 / n) +
                                    gamma * phi_inverse(1 - 1 / (exp(1) * n)));
    *share = done / pieces;
    return *share * all / fmin(tau, all);
}

TEST(the_best_deadline_gives_what_the_closed_form_says)
{
    enum { WORKERS = 100, PIECES = 16, ROUNDS = 60 };
    const double deviations[] = {0.1, 0.3};
    for (size_t i = 0; i < 2; i++) {
        OWNED(world) all;
        lone_copies(&all, WORKERS, PIECES, i == 0 ? "jitter:0.1/chunk" : "jitter:0.3/chunk");
        all.straggler_seed = test_seed("baseline", 5);
        world_begin(&all);
        OWNED(baseline)
        model = begin_model(&all, (baseline_settings){.kind = BASELINE_DROPCOMPUTE});
        OWNED(baseline)
        endless = begin_model(
            &all, (baseline_settings){.kind = BASELINE_DROPCOMPUTE, .deadline_ns = TARRY_NEVER});
        double share = 0, time = 0, longest = 0, expected;
        for (int round = 0; round < ROUNDS; round++) {
            tarry_round_result result = model_round(model), whole = model_round(endless);
            share += (1 - result.expected_error) / ROUNDS;
            time += world_seconds(&result) / ROUNDS;
            longest += world_seconds(&whole) / ROUNDS;
        }
        double mu = 1.0 / PIECES, sigma = deviations[i] * mu, best = 0, ignored;
        double tau = (double)baseline_deadline_ns(model) * 1e-9;
        double speedup = closed_form(tau, PIECES, WORKERS, mu, sigma, &expected);
        for (double other = 0.5; other < 2; other += 0.001)
            best = fmax(best, closed_form(other, PIECES, WORKERS, mu, sigma, &ignored));
        printf("jitter %.1f: deadline %.4f s, share %.4f (%.4f), speedup %.4f (%.4f, best %.4f)\n",
               deviations[i], tau, share, expected, share * longest / time, speedup, best);
        assert_true(fabs(share / expected - 1) < 0.02);
        assert_true(fabs(share * longest / time / speedup - 1) < 0.02);
        assert_true(speedup > 0.98 * best);
    }
}

TEST(wrong_settings_are_refused)
{
    const double negative[] = {1, -1};
    baseline *model;
    tarry_diagnostic why;
    world all;
    lone_copies(&all, 2, 1, NULL);
    world_begin(&all);
    const baseline_settings own = {.kind = BASELINE_QUEUE};
    tarry_sim_settings wrong = all.settings;
    wrong.chunk_cost = negative;
    assert_int_equal(baseline_create(all.plan, &own, &wrong, NULL, &model, &why),
                     TARRY_ERROR_ARGUMENT);
    wrong = all.settings;
    wrong.way = TARRY_SIM_RING; /* a queue is the server's */
    assert_int_equal(baseline_create(all.plan, &own, &wrong, NULL, &model, &why),
                     TARRY_ERROR_ARGUMENT);
    const baseline_settings reduced = {.kind = BASELINE_ALL_REDUCE};
    assert_int_equal(baseline_create(all.plan, &reduced, &all.settings, NULL, &model, &why),
                     TARRY_ERROR_ARGUMENT);
    model = begin_model(&all, own);
    assert_int_equal(baseline_costs(model, negative, &why), TARRY_ERROR_ARGUMENT);
    baseline_free(model);
    world_end(&all);
    lone_copies(&all, 2, 1, NULL);
    all.plan_settings.replication = 2;
    world_begin(&all);
    assert_int_equal(baseline_create(all.plan, &own, &all.settings, NULL, &model, &why),
                     TARRY_ERROR_ARGUMENT);
    world_end(&all);
    baseline_free(NULL);
}

typedef struct attempt {
    const world *all;
    baseline_kind kind;
    tarry_sim_way way;
} attempt;

static int run(void *user, const tarry_allocator *allocator)
{
    const attempt *of = user;
    baseline_settings own = {.kind = of->kind, .backups = true};
    OWNED(baseline) model = NULL;
    tarry_round_result result;
    tarry_sim_settings settings = of->all->settings;
    settings.way = of->way;
    int error = baseline_create(of->all->plan, &own, &settings, allocator, &model, NULL);
    for (int round = 0; round < 2 && error == TARRY_OK; round++)
        error = baseline_round(model, &result);
    return error;
}

WORLD(each_allocation_may_fail)
{
    lone_copies(all, 3, 2, "exp:1+fail:0.5+rejoin:2");
    all->settings.server.silence_ns = SECOND;
    world_begin(all);
    attempt attempts[] = {{all, BASELINE_DROPCOMPUTE, TARRY_SIM_STAR},
                          {all, BASELINE_DROPCOMPUTE, TARRY_SIM_DIRECT},
                          {all, BASELINE_QUEUE, TARRY_SIM_STAR},
                          {all, BASELINE_ALL_REDUCE, TARRY_SIM_RING}};
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
        assert_true(fail_each_allocation(run, &attempts[i]) >= 5);
}
