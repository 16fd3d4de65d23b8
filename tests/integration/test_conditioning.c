/* SPDX-License-Identifier: Apache-2.0 */
/* What a raised limit costs: measured rounding errors against the bound that the result gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "plan/plan.h"
#include "seed.h"
#include "summing.h"

/* Groups of two workers, whose two columns stand at the angle 2 / inverse of each other: the least
 * singular value is about sqrt(2) / inverse. */
static void set_angles(tarry_plan *plan, double inverse)
{
    double *decode = plan->decode + plan_decode_rows(plan, 2) * plan->workers;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        double angle = worker + worker % 2 * (2 / inverse - 1);
        decode[worker] = cos(angle);
        decode[plan->workers + worker] = sin(angle);
    }
}

static void at_a_hundred(tarry_plan *plan)
{
    set_angles(plan, 100);
}

static void at_ten_thousand(tarry_plan *plan)
{
    set_angles(plan, 1e4);
}

static void at_the_most(tarry_plan *plan)
{
    set_angles(plan, 1e6);
}

/* Three rounds: every error lies below the bound, and not so far that it would say nothing. */
static void assert_bounded(summing *job, double least, double most)
{
    summing_begin(job);
    for (int round = 0; round < 3; round++) {
        tarry_round_result result;
        assert_int_equal(summing_round(job, &result, NULL), TARRY_OK);
        double error = summing_relative_error(job);
        printf("%u parts, 1/sigma_min %.3g: error %.2g, bound %.2g\n", result.parts,
               result.conditioning, error, result.error_bound);
        assert_false(result.exact);
        assert_true(result.expected_error == 0);
        assert_true(result.conditioning >= least && result.conditioning <= most);
        assert_true(error <= result.error_bound && error > result.error_bound / 5000);
    }
    summing_end(job);
}

static void errors_of_nearly_parallel_columns_keep_their_bound(void **state)
{
    (void)state;
    static const struct {
        void (*prepare)(tarry_plan *plan);
        double inverse;
    } cases[] = {{at_a_hundred, 100}, {at_ten_thousand, 1e4}, {at_the_most, 1e6}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        summing job;
        summing_init(&job);
        job.seed = test_seed("conditioning", 5);
        job.plan_settings.design = TARRY_DESIGN_FRACTIONAL;
        job.plan_settings.replication = 2;
        job.plan_settings.parts = 2;
        job.prepare = cases[i].prepare;
        job.local_settings.server.conditioning_limit = 50;
        assert_bounded(&job, 0.7 * cases[i].inverse, 0.75 * cases[i].inverse);
    }
}

/* Random designs, with a limit that no set of workers keeps; one of three copies is lost. */
static void so_do_those_of_many_parts(void **state)
{
    (void)state;
    for (uint32_t parts = 2; parts <= 4; parts++) {
        summing job;
        summing_init(&job);
        job.seed = test_seed("conditioning", 6);
        job.plan_settings.parts = parts;
        job.plan_settings.replication = parts + 1;
        job.plan_settings.seed = 1;
        job.straggler_spec = "dead:1";
        job.local_settings.server.silence_ns = 200000000;
        job.local_settings.server.conditioning_limit = 1.01;
        assert_bounded(&job, 1.01, 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_nearly_parallel_columns_keep_their_bound),
        cmocka_unit_test(so_do_those_of_many_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
