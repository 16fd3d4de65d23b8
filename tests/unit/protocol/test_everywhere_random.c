/* SPDX-License-Identifier: Apache-2.0 */
/* Sums among workers, with the machines of server and workers, in random orders and with faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "congress.h"
#include "seed.h"

static void without_faults_every_attempt_is_committed(void **state)
{
    (void)state;
    uint64_t seed = test_seed("everywhere", 1);
    for (uint32_t run = 0; run < 30; run++) {
        congress its;
        congress_begin(
            &its,
            &(congress_settings){.workers = 1 + run % 5,
                                 .parts = 1,
                                 .keep = run % 2 == 0 ? TARRY_KEEP_ALL : TARRY_KEEP_CREDITED},
            seed + run);
        congress_run(&its, 6);
        congress_assert_same(&its);
        assert_int_equal(its.ended, TARRY_OK);
        assert_int_equal(its.commits + its.uncovered, its.rounds);
        assert_int_equal(its.voids, 0);
        congress_end(&its);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_every_attempt_is_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
