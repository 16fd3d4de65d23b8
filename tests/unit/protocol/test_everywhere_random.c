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
        congress_settle(&its);
        assert_null(its.broken);
        assert_int_equal(its.ended, TARRY_OK);
        assert_int_equal(its.commits + its.uncovered, its.rounds);
        assert_int_equal(its.voids, 0);
        congress_end(&its);
    }
}

typedef struct kind {
    const char *name;
    congress_settings settings;
} kind;

static const kind kinds[] = {
    {"cuts", {.faults = 4, .cuts = true}},
    {"crashes", {.faults = 3, .crashes = true}},
    {"transfers that fail", {.faults = 2, .cuts = true, .crashes = true, .failing = 6}},
    {"wrong bits", {.faults = 1, .cuts = true, .wrong = 2}},
    {"restarts", {.faults = 4, .cuts = true, .restarts = true}},
    {"all",
     {.faults = 6, .cuts = true, .crashes = true, .restarts = true, .failing = 6, .wrong = 1}},
};

static void nothing_uncommitted_is_stepped_on(void **state)
{
    (void)state;
    uint64_t seed = test_seed("faults", 1);
    uint32_t runs = test_is_long() ? 3000 : 120;
    for (uint32_t run = 0; run < runs; run++) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
            congress its;
            congress_settings settings = kinds[i].settings;
            settings.workers = 2 + run % 4;
            settings.parts = settings.workers >= 3 && run % 3 == 0 ? 2 : 1;
            settings.keep =
                settings.parts == 1 && run % 2 == 0 ? TARRY_KEEP_CREDITED : TARRY_KEEP_ALL;
            congress_begin(&its, &settings, seed + run * 10 + i);
            congress_run(&its, 5);
            congress_settle(&its);
            if (its.broken != NULL)
                fail_msg("%s, run %u: not so: %s", kinds[i].name, run, its.broken);
            if (its.ended != TARRY_OK && its.ended != TARRY_ERROR_GONE &&
                its.ended != TARRY_ERROR_LINKS)
                fail_msg("%s, run %u: %s", kinds[i].name, run, tarry_error_text(its.ended));
            congress_end(&its);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_every_attempt_is_committed),
        cmocka_unit_test(nothing_uncommitted_is_stepped_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
