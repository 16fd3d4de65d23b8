/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants can fail: each fault, planted into the worlds, is found by the one it breaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "seed.h"

enum { WORLDS = 3000, ENOUGH = 10 };

/*
 * The fault is found by the invariant `name` in some worlds. Where it has done other damage first,
 * it may be found by one of `others` instead (names joined by blanks; NULL: by any).
 */
static void expect(plant planted, const char *name, const char *others)
{
    uint64_t seed = test_seed("scenario/planted", 1);
    cluster *world = cluster_create();
    uint32_t found = 0;
    for (uint32_t run = 0; run < WORLDS && found < ENOUGH; run++) {
        cluster_run(world, seed, run, planted, NULL);
        if (world->broken == NULL)
            continue;
        if (strcmp(world->broken, name) == 0)
            found++;
        else if (others != NULL && strstr(others, world->broken) == NULL)
            fail_msg("run %u: %s (%s), expected %s", run, world->broken, world->why, name);
    }
    cluster_free(world);
    assert_int_equal(found, ENOUGH);
}

static void a_part_summed_twice(void **state)
{
    (void)state;
    expect(PLANT_SUM_TWICE, "no_chunk_counted_twice", "");
}

static void a_stale_part_summed(void **state)
{
    (void)state;
    expect(PLANT_SUM_STALE, "no_stale_message_summed", "");
}

static void an_estimate_that_is_not_cleared(void **state)
{
    (void)state;
    expect(PLANT_FORGET_CLEAR, "no_chunk_counted_twice",
           "expected_error_is_the_error exact_means_exact");
}

static void messages_of_an_earlier_arrival_that_count(void **state)
{
    (void)state;
    expect(PLANT_FORGE_EPOCH, "psi_speaks_of_real_copies", "whole_credit_takes_whole_workers");
}

static void a_report_that_is_overlooked(void **state)
{
    (void)state;
    expect(PLANT_LOSE_REPORT, "signals_when_the_stop_rule_holds", NULL);
}

static void a_message_that_is_counted_twice(void **state)
{
    (void)state;
    expect(PLANT_REPEAT_UNNOTICED, "counters_agree", NULL);
}

static void a_wrong_coefficient(void **state)
{
    (void)state;
    expect(PLANT_BEND_PART, "exact_means_exact", "expected_error_is_the_error");
}

static void a_chunk_encoded_before_it_is_computed(void **state)
{
    (void)state;
    expect(PLANT_ENCODE_UNFINISHED, "encodes_only_finished_copies",
           "exact_means_exact expected_error_is_the_error");
}

static void a_result_that_claims_too_little_error(void **state)
{
    (void)state;
    expect(PLANT_BEND_RESULT, "expected_error_is_the_error", "");
}

static void a_signal_that_never_arrives(void **state)
{
    (void)state;
    expect(PLANT_SWALLOW_SIGNAL, "every_run_ends", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_summed_twice),
        cmocka_unit_test(a_stale_part_summed),
        cmocka_unit_test(an_estimate_that_is_not_cleared),
        cmocka_unit_test(messages_of_an_earlier_arrival_that_count),
        cmocka_unit_test(a_report_that_is_overlooked),
        cmocka_unit_test(a_message_that_is_counted_twice),
        cmocka_unit_test(a_wrong_coefficient),
        cmocka_unit_test(a_chunk_encoded_before_it_is_computed),
        cmocka_unit_test(a_result_that_claims_too_little_error),
        cmocka_unit_test(a_signal_that_never_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
