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

/*
 * Independent normal vectors in every chunk and round: the measured squared error over that of the
 * whole sum must have the mean that psi promised, round by round, within its own deviation.
 */
static void assert_model_holds(const char *name, uint32_t parts, uint32_t replication,
                               tarry_stop stop)
{
    summing job;
    summing_init(&job);
    job.seed = test_seed(name, 17);
    job.dimension = 2000;
    job.plan_settings.parts = parts;
    job.plan_settings.replication = replication;
    job.local_settings.server.stop = stop;
    job.local_settings.server.deadline_ns = 2000000;
    job.local_settings.server.error_limit = 0.4;
    job.straggler_spec = "dead:3+exp:0.001/chunk";
    summing_begin(&job);
    const int rounds = 200;
    double excess = 0, square = 0, expected = 0;
    for (int round = 0; round < rounds; round++) {
        tarry_round_result result;
        assert_int_equal(summing_round(&job, &result, NULL), TARRY_OK);
        double difference = summing_squared_error(&job) - result.expected_error;
        excess += difference / rounds;
        square += difference * difference / rounds;
        expected += result.expected_error / rounds;
    }
    double deviation = sqrt((square - excess * excess) / rounds);
    printf("%s: expected error %.4f, measured - expected %.5f, its deviation %.5f\n", name,
           expected, excess, deviation);
    assert_true(expected > 0.02);
    assert_true(fabs(excess) <= 4 * deviation + 1e-9);
    summing_end(&job);
}

static void measured_error_is_the_expected_one(void **state)
{
    (void)state;
    assert_model_holds("deadline, 1 part", 1, 2, TARRY_STOP_DEADLINE);
    assert_model_holds("deadline, 2 parts", 2, 3, TARRY_STOP_DEADLINE);
    assert_model_holds("error, 1 part", 1, 2, TARRY_STOP_ERROR);
    assert_model_holds("error, 3 parts", 3, 4, TARRY_STOP_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_error_is_the_expected_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
