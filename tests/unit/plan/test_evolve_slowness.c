/* SPDX-License-Identifier: Apache-2.0 */
/* How many moves it takes to adapt a plan to lasting slowness: the table of docs/evolution.md. */
#include <math.h>

#include "base/random.h"
#include "plan/evolve/evolve.h"
#include "plan_check.h"
#include "seed.h"

enum { MOST_WORKERS = 2000 };

static const char *const designs[] = {"cyclic", "fractional", "random"};

typedef struct slowness {
    const char *name;
    void (*draw)(random_stream *stream, uint32_t workers, double *pace);
} slowness;

static void jitter(random_stream *stream, uint32_t workers, double *pace)
{
    for (uint32_t worker = 0; worker < workers; worker++)
        pace[worker] = exp(0.1 * random_normal(stream));
}

static void fifth_slow(random_stream *stream, uint32_t workers, double *pace)
{
    jitter(stream, workers, pace);
    for (uint32_t worker = 0; worker < workers; worker++)
        if (random_below(stream, 5) == 0)
            pace[worker] *= 5 + 15 * random_uniform(stream);
}

static void rack_slow(random_stream *stream, uint32_t workers, double *pace)
{
    jitter(stream, workers, pace);
    uint32_t first = random_below(stream, workers);
    for (uint32_t i = 0; i < workers / 10; i++)
        pace[(first + i) % workers] *= 10;
}

static void tenth_gone(random_stream *stream, uint32_t workers, double *pace)
{
    jitter(stream, workers, pace);
    for (uint32_t worker = 0; worker < workers; worker++)
        if (random_below(stream, 10) == 0)
            pace[worker] = INFINITY;
}

static void one_plus_exponential(random_stream *stream, uint32_t workers, double *pace)
{
    for (uint32_t worker = 0; worker < workers; worker++)
        pace[worker] = 1 + random_exponential(stream);
}

static void pareto(random_stream *stream, uint32_t workers, double *pace)
{
    for (uint32_t worker = 0; worker < workers; worker++)
        pace[worker] = pow(random_uniform(stream), -1 / 1.5);
}

/* No fewer moves can do: each lets at most one chunk more be done in time. */
static uint32_t fewest_moves(const tarry_plan *plan, const double *pace, double time)
{
    uint32_t chunks = tarry_plan_chunks(plan), workers = tarry_plan_workers(plan);
    OWNED(double) ones = checked_calloc(chunks, sizeof(*ones));
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        ones[chunk] = 1;
    cover work;
    assert_ok(cover_init(&work, workers, chunks, 1, plan_edges(plan), pace, ones, NULL));
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++)
            cover_hold(&work, tarry_plan_holder(plan, chunk, i), chunk);
    uint64_t missing = cover_fill(&work, time), one = work.amount[0];
    cover_destroy(&work, NULL);
    return (uint32_t)((missing + one - 1) / one);
}

static void adapt(const slowness *slow, uint32_t workers, uint32_t chunks, uint32_t replication,
                  tarry_design design, uint64_t seed)
{
    OWNED(tarry_plan)
    plan = plan_of(workers, chunks, replication, design, TARRY_ORDER_OPTIMAL, seed);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, workers, replication);
    double pace[MOST_WORKERS];
    slow->draw(&stream, workers, pace);
    const tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX};
    tarry_plan_changes changes;
    OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
    const double share = changes.moved / ((double)chunks * replication);
    print_message("%4u %5u %u %-10s %-12s %6.3f %6.3f %4u %4u %5.2f%%\n", workers, chunks,
                  replication, designs[design], slow->name,
                  changes.matched_before / changes.balanced,
                  changes.matched_after / changes.balanced, changes.moved,
                  fewest_moves(plan, pace, 1.02 * changes.balanced), 100 * share);
    assert_true(changes.matched_after <= 1.0201 * changes.balanced);
    assert_true(share <= (design == TARRY_DESIGN_RANDOM ? 0.02 : 0.08));
}

TEST(few_moves_bring_plans_near_to_balanced)
{
    const slowness all[] = {
        {"jitter", jitter},         {"fifth slow", fifth_slow},        {"rack slow", rack_slow},
        {"tenth gone", tenth_gone}, {"1 + exp", one_plus_exponential}, {"pareto 1.5", pareto},
    };
    uint64_t seed = test_seed("slowness", 1);
    print_message("   m     N r design     slowness     before  after moves least share\n");
    for (int design = TARRY_DESIGN_CYCLIC; design <= TARRY_DESIGN_RANDOM; design++)
        for (uint32_t replication = 2; replication <= 3; replication++)
            for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                adapt(&all[i], 200, 3200, replication, (tarry_design)design, seed);
    for (uint32_t replication = 2; replication <= 3; replication++)
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            if (test_is_long() || (replication == 2 && all[i].draw == fifth_slow))
                adapt(&all[i], 2000, 16000, replication, TARRY_DESIGN_RANDOM, seed);
}

/* ---- slowness that comes and goes ---- */

enum { WORKERS = 200, CHUNKS = 3200, ROUNDS = 40 };

typedef struct weather {
    random_stream stream;
    bool slow[WORKERS];
} weather;

static weather draw_weather(uint64_t seed)
{
    weather drawn = {.stream = random_stream_make(seed, RANDOM_TEST, 1, 0)};
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        drawn.slow[worker] = random_below(&drawn.stream, 5) == 0;
    return drawn;
}

/* A worker becomes 10 times slower with probability 0.01 per round, and fast again with 0.04. */
static void next_round(weather *now, double *pace)
{
    jitter(&now->stream, WORKERS, pace);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        if (random_below(&now->stream, 100) < (now->slow[worker] ? 4 : 1))
            now->slow[worker] = !now->slow[worker];
        pace[worker] *= now->slow[worker] ? 10 : 1;
    }
}

typedef struct ratios {
    double mean, worst;
} ratios;

static void count_ratio(ratios *of, double ratio)
{
    of->mean += ratio / ROUNDS;
    of->worst = fmax(of->worst, ratio);
}

static void follow(tarry_design design, uint32_t replication, uint64_t seed)
{
    tarry_plan *plan = plan_of(WORKERS, CHUNKS, replication, design, TARRY_ORDER_AS_IS, seed);
    weather now = draw_weather(seed);
    ratios before = {0}, after = {0};
    uint32_t moves = 0, most_load = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double pace[WORKERS];
        next_round(&now, pace);
        tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX, .most_load = 1.5};
        tarry_plan_changes changes;
        tarry_plan *next = plan_evolve(plan, &wanted, &changes);
        tarry_plan_free(plan);
        plan = next;
        count_ratio(&before, changes.matched_before / changes.balanced);
        count_ratio(&after, changes.matched_after / changes.balanced);
        moves += changes.moved;
        most_load = plan->max_load > most_load ? plan->max_load : most_load;
    }
    print_message("%u %-10s %7.3f %7.3f %7.3f %7.3f %6.1f %6.2f\n", replication, designs[design],
                  before.mean, before.worst, after.mean, after.worst, (double)moves / ROUNDS,
                  (double)most_load * WORKERS / (CHUNKS * replication));
    assert_true(after.worst <= 1.05);
    assert_true(moves <= ROUNDS * CHUNKS * replication / 100);
    tarry_plan_free(plan);
}

TEST(plans_follow_slowness_that_comes_and_goes)
{
    uint64_t seed = test_seed("weather", 2);
    print_message("           before          after           moves   most\n"
                  "r design     mean   worst    mean   worst  round   load\n");
    for (int design = TARRY_DESIGN_CYCLIC; design <= TARRY_DESIGN_RANDOM; design++)
        for (uint32_t replication = 2; replication <= 3; replication++)
            follow((tarry_design)design, replication, seed);
}
