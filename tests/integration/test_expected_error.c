/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "seed.h"
#include "summing.h"
#include "test.h"

typedef struct setup {
    uint32_t parts, replication;
    tarry_stop stop;
    tarry_fill fill;
    bool lasting; /* vectors, see summing.h */
} setup;

/*
 * What tarry_fill says of a chunk's change: its vectors are those of the round before times (t + 2)
 * / (t + 1), or drawn anew.
 */
static double change(const setup *of, uint64_t round)
{
    double before = (double)round / (double)(round + 1);
    return of->lasting ? (1 - before) * (1 - before) : 1 + before * before;
}

/*
 * Independent vectors of mean 0 in every chunk: the measured squared error over that of the whole
 * sum must have the mean that psi promised, round by round, within its own deviation.
 */
static void assert_model_holds(const char *name, setup of)
{
    OWNED(summing) job;
    summing_init(&job);
    job.lasting = of.lasting;
    job.local_settings.server.fill = of.fill;
    job.seed = test_seed(name, 17);
    job.dimension = 2000;
    job.plan_settings.parts = of.parts;
    job.plan_settings.replication = of.replication;
    job.local_settings.server.stop = of.stop;
    job.local_settings.server.deadline_ns = 6000000;
    job.local_settings.server.error_limit = 0.4;
    job.straggler_spec = "dead:3+exp:0.003/chunk";
    summing_begin(&job);
    const int rounds = 200;
    double excess = 0, square = 0, expected = 0, filled = 0;
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        assert_ok(summing_round(&job, &result, NULL));
        double promised =
            result.expected_error - (1 - change(&of, result.round)) * result.filled_share;
        double difference = summing_squared_error(&job) - promised;
        excess += difference / rounds;
        square += difference * difference / rounds;
        expected += promised / rounds;
        filled += result.filled_share / rounds;
    }
    double deviation = sqrt((square - excess * excess) / rounds);
    printf("%s: expected error %.4f, measured - expected %.5f, its deviation %.5f, filled %.3f\n",
           name, expected, excess, deviation, filled);
    assert_true(expected > (of.lasting ? 1e-4 : 0.02));
    assert_true((filled > 0.02) == (of.fill == TARRY_FILL_STALE));
    /* Lasting vectors are one draw: its own chance is in every round. */
    assert_true(fabs(excess) <= (of.lasting ? 0.1 * expected : 5 * deviation) + 1e-9);
}

TEST(measured_error_is_the_expected_one)
{
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("deadline, 1 part", (setup){1, 2, deadline, TARRY_FILL_NONE, false});
    assert_model_holds("deadline, 2 parts", (setup){2, 3, deadline, TARRY_FILL_NONE, false});
    assert_model_holds("error, 1 part", (setup){1, 2, error, TARRY_FILL_NONE, false});
    assert_model_holds("error, 3 parts", (setup){3, 4, error, TARRY_FILL_NONE, false});
}

TEST(a_scaled_estimate_has_the_error_it_says)
{
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("scale, 1 part", (setup){1, 2, deadline, TARRY_FILL_SCALE, false});
    assert_model_holds("scale, 3 parts", (setup){3, 4, error, TARRY_FILL_SCALE, false});
}

TEST(stale_gradients_have_the_error_of_their_change)
{
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("stale, 1 part, anew", (setup){1, 2, deadline, TARRY_FILL_STALE, false});
    assert_model_holds("stale, 1 part, lasting", (setup){1, 2, deadline, TARRY_FILL_STALE, true});
    assert_model_holds("stale, 2 parts, anew", (setup){2, 4, error, TARRY_FILL_STALE, false});
    assert_model_holds("stale, 2 parts, lasting", (setup){2, 4, error, TARRY_FILL_STALE, true});
}

/* ---- gradients that are all alike ---- */

enum { MOST_PARTS = 3 };

typedef struct matrix {
    double at[MOST_PARTS][MOST_PARTS];
} matrix;

/*
 * Adds share * P to sum, where P is the projection onto the columns of R that belong to the chunk's
 * living holders: by Gram and Schmidt.
 */
static void add_projection(const summing *job, uint32_t chunk, double share, matrix *sum)
{
    uint32_t parts = tarry_plan_parts(job->plan), found = 0;
    double basis[MOST_PARTS][MOST_PARTS];
    for (uint32_t h = 0; h < tarry_plan_replication(job->plan, chunk) && found < parts; h++) {
        uint32_t worker = tarry_plan_holder(job->plan, chunk, h);
        if (tarry_straggler_dead(job->straggler, worker))
            continue;
        double rest[MOST_PARTS], square = 0;
        for (uint32_t p = 0; p < parts; p++)
            rest[p] = tarry_plan_decode_weight(job->plan, p, worker);
        for (uint32_t k = 0; k < found; k++) {
            double along = 0;
            for (uint32_t p = 0; p < parts; p++)
                along += basis[k][p] * rest[p];
            for (uint32_t p = 0; p < parts; p++)
                rest[p] -= along * basis[k][p];
        }
        for (uint32_t p = 0; p < parts; p++)
            square += rest[p] * rest[p];
        assert_true(sqrt(square) > 1e-3); /* no doubt about a rank */
        for (uint32_t p = 0; p < parts; p++)
            basis[found][p] = rest[p] / sqrt(square);
        found++;
    }
    for (uint32_t k = 0; k < found; k++)
        for (uint32_t p = 0; p < parts; p++)
            for (uint32_t q = 0; q < parts; q++)
                sum->at[p][q] += share * basis[k][p] * basis[k][q];
}

/* What docs/fill.md says: with A the mean of the chunks' projections, |A / k - I|^2 / l if the sum
 * is scaled by 1 / k, else |A - I|^2 / l. */
static double error_of_alike(const summing *job, double *k)
{
    uint32_t parts = tarry_plan_parts(job->plan), chunks = tarry_plan_chunks(job->plan);
    matrix mean = {{{0}}};
    double error = 0;
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        add_projection(job, chunk, 1.0 / chunks, &mean);
    *k = 0;
    for (uint32_t p = 0; p < parts; p++)
        *k += mean.at[p][p] / parts;
    bool scaled = job->local_settings.server.fill == TARRY_FILL_SCALE;
    for (uint32_t p = 0; p < parts; p++)
        for (uint32_t q = 0; q < parts; q++) {
            double off = mean.at[p][q] / (scaled ? *k : 1) - (p == q);
            error += off * off / parts;
        }
    return error;
}

static double measured_of_alike(uint32_t parts, tarry_fill fill, uint64_t seed)
{
    OWNED(summing) job;
    summing_init(&job);
    job.alike = true;
    job.seed = job.plan_settings.seed = seed;
    job.dimension = 9000;
    job.plan_settings.chunks = 16;
    job.plan_settings.parts = parts;
    job.plan_settings.replication = parts + 1;
    job.straggler_spec = "dead:3";
    job.local_settings.server.stop = TARRY_STOP_WORKERS; /* all that are not dead */
    job.local_settings.server.workers_needed = job.plan_settings.workers - 3;
    job.local_settings.server.fill = fill;
    summing_begin(&job);
    tarry_round_result result;
    assert_ok(summing_round(&job, &result, NULL));
    double k, measured = summing_squared_error(&job), formula = error_of_alike(&job, &k);
    printf("alike, %u parts, %s: k %.3f, formula %.5f, measured %.5f\n", parts,
           fill == TARRY_FILL_SCALE ? "scale" : "none", k, formula, measured);
    double promised = fill == TARRY_FILL_SCALE ? (1 - k) / k : 1 - k;
    assert_true(fabs(result.expected_error - promised) < 1e-9);
    /* The formula is the mean over gradients; one of 3,000 numbers or more in a part is off. */
    assert_true(fabs(measured - formula) <= 0.15 * formula + 1e-9);
    return measured;
}

/* With one part scaling brings the common mean without an error; chunks that are recovered in part
 * leave one with more. */
TEST(what_gradients_have_in_common_has_the_error_of_the_mean_projection)
{
    for (uint32_t parts = 1; parts <= MOST_PARTS; parts++) {
        double scaled = 0;
        for (uint64_t turn = 0; turn < 5; turn++) {
            uint64_t seed = test_seed("alike", 40 + turn);
            scaled += measured_of_alike(parts, TARRY_FILL_SCALE, seed) / 5;
            measured_of_alike(parts, TARRY_FILL_NONE, seed);
        }
        printf("alike, %u parts, scaled: mean error %.5f\n", parts, scaled);
        assert_true(parts == 1 ? scaled < 1e-9 : scaled > 1e-3);
    }
}
