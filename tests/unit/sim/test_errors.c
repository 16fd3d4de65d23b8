/* SPDX-License-Identifier: Apache-2.0 */
/* Expected errors against measured ones, with plans whose chunks are split and merged all the time.
 */
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "edge_plan.h"
#include "plan/plan.h"
#include "seed.h"
#include "test.h"
#include "world.h"

enum { CHUNKS = 48, DIMENSION = 100, ROUNDS = 240 };

typedef struct setup {
    const char *name;
    uint32_t parts;
    tarry_stop stop;
    tarry_fill fill;
} setup;

static void begin(world *all, const setup *of)
{
    world_init(all);
    all->plan_settings.workers = 8;
    all->plan_settings.chunks = CHUNKS;
    all->plan_settings.design = TARRY_DESIGN_FRACTIONAL; /* in which others' chunks merge, too */
    all->plan_settings.replication = 4;
    all->plan_settings.parts = of->parts;
    all->spec = "shifted-exp:1,1+jitter:0.1";
    all->settings.seed = all->straggler_seed = test_seed(of->name, 31);
    all->settings.dimension = DIMENSION;
    all->settings.vectors = true;
    all->settings.server.pick = TARRY_PICK_SHARE;
    all->settings.server.stop = of->stop;
    all->settings.server.fill = of->fill;
    all->settings.server.error_limit = 0.3;
    all->settings.server.deadline_ns = of->parts * 12 * SECOND;
    world_begin(all);
}

/* The plan of the next rounds, as if the data in each chunk took another time. */
static tarry_plan *cut_anew(const tarry_plan *plan, random_stream *stream)
{
    uint32_t chunks = tarry_plan_chunks(plan);
    OWNED(double) cost = checked_calloc(chunks, sizeof(*cost));
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        cost[chunk] = (double)plan_weight(plan, chunk) * (0.1 + pow(random_uniform(stream), 3));
    const tarry_plan_evolution wanted = {.cost = cost, .heaviest = 2, .lightest = 0.5};
    return plan_evolve(plan, &wanted, NULL);
}

/* Over the square that independent normal numbers have in the mean, so that the mean is known. */
static double squared_error(const world *all)
{
    const float *estimate = tarry_sim_estimate(all->sim);
    const double *truth = tarry_sim_truth(all->sim);
    double error = 0;
    for (size_t i = 0; i < DIMENSION; i++)
        error += (estimate[i] - truth[i]) * (estimate[i] - truth[i]);
    return error / ((double)DIMENSION * CHUNKS);
}

/* What docs/fill.md promises for gradients that are drawn anew in each round. */
static double promised(const tarry_round_result *result)
{
    return result->expected_error + result->filled_share;
}

static void assert_error_is_the_expected_one(const setup *of)
{
    world all;
    begin(&all, of);
    random_stream stream = random_stream_make(all.settings.seed, RANDOM_TEST, 0, 0);
    tarry_plan *plan = NULL;
    double excess = 0, square = 0, expected = 0, filled = 0;
    uint32_t uneven = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tarry_round_result result = world_round(&all);
        assert_ok(result.error);
        if (of->stop == TARRY_STOP_ERROR && of->fill == TARRY_FILL_NONE)
            assert_true(result.expected_error <= all.settings.server.error_limit);
        double difference = squared_error(&all) - promised(&result);
        excess += difference / ROUNDS;
        square += difference * difference / ROUNDS;
        expected += promised(&result) / ROUNDS;
        filled += result.filled_share / ROUNDS;
        uneven += plan != NULL && !tarry_plan_is_original(plan);
        if (round % 3 != 0) /* stale gradients are of the same plan's round before */
            continue;
        tarry_plan *next = cut_anew(plan != NULL ? plan : all.plan, &stream);
        assert_ok(tarry_sim_replan(all.sim, next, NULL));
        tarry_plan_free(plan);
        plan = next;
    }
    double deviation = sqrt((square - excess * excess) / ROUNDS);
    printf("%s: expected error %.4f, measured - expected %.5f, its deviation %.5f, filled %.3f\n",
           of->name, expected, excess, deviation, filled);
    assert_true(uneven > ROUNDS * 9 / 10);
    assert_true((filled > 0.01) == (of->fill == TARRY_FILL_STALE));
    assert_true(fabs(excess) <= 5 * deviation);
    /* What is off by a tenth is found. */
    assert_true(5 * deviation < 0.1 * expected);
    world_end(&all);
    tarry_plan_free(plan);
}

TEST(pieces_weigh_what_they_are_of_the_data)
{
    const tarry_stop error = TARRY_STOP_ERROR, deadline = TARRY_STOP_DEADLINE;
    const setup setups[] = {
        {"error, 1 part", 1, error, TARRY_FILL_NONE},
        {"error, 2 parts", 2, error, TARRY_FILL_NONE},
        {"deadline, 1 part", 1, deadline, TARRY_FILL_NONE},
        {"scale, error, 1 part", 1, error, TARRY_FILL_SCALE},
        {"scale, deadline, 2 parts", 2, deadline, TARRY_FILL_SCALE},
        {"stale, deadline, 1 part", 1, deadline, TARRY_FILL_STALE},
        {"stale, deadline, 2 parts", 2, deadline, TARRY_FILL_STALE},
    };
    for (size_t i = 0; i < sizeof(setups) / sizeof(*setups); i++)
        assert_error_is_the_expected_one(&setups[i]);
}
