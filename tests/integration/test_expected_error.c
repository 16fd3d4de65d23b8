/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "seed.h"
#include "summing.h"

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
 * Independent normal vectors in every chunk: the measured squared error over that of the whole sum
 * must have the mean that psi promised, round by round, within its own deviation.
 */
static void assert_model_holds(const char *name, setup of)
{
    summing job;
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
        assert_int_equal(summing_round(&job, &result, NULL), TARRY_OK);
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
    summing_end(&job);
}

static void measured_error_is_the_expected_one(void **state)
{
    (void)state;
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("deadline, 1 part", (setup){1, 2, deadline, TARRY_FILL_NONE, false});
    assert_model_holds("deadline, 2 parts", (setup){2, 3, deadline, TARRY_FILL_NONE, false});
    assert_model_holds("error, 1 part", (setup){1, 2, error, TARRY_FILL_NONE, false});
    assert_model_holds("error, 3 parts", (setup){3, 4, error, TARRY_FILL_NONE, false});
}

static void a_scaled_estimate_has_the_error_it_says(void **state)
{
    (void)state;
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("scale, 1 part", (setup){1, 2, deadline, TARRY_FILL_SCALE, false});
    assert_model_holds("scale, 3 parts", (setup){3, 4, error, TARRY_FILL_SCALE, false});
}

static void stale_gradients_have_the_error_of_their_change(void **state)
{
    (void)state;
    const tarry_stop deadline = TARRY_STOP_DEADLINE, error = TARRY_STOP_ERROR;
    assert_model_holds("stale, 1 part, anew", (setup){1, 2, deadline, TARRY_FILL_STALE, false});
    assert_model_holds("stale, 1 part, lasting", (setup){1, 2, deadline, TARRY_FILL_STALE, true});
    assert_model_holds("stale, 2 parts, anew", (setup){2, 4, error, TARRY_FILL_STALE, false});
    assert_model_holds("stale, 2 parts, lasting", (setup){2, 4, error, TARRY_FILL_STALE, true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_error_is_the_expected_one),
        cmocka_unit_test(a_scaled_estimate_has_the_error_it_says),
        cmocka_unit_test(stale_gradients_have_the_error_of_their_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
