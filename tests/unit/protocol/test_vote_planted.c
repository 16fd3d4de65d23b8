/* SPDX-License-Identifier: Apache-2.0 */
/* Each clause of the vote's rules, left out, is found by what goes wrong then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "congress.h"
#include "protocol/server/server_state.h"
#include "seed.h"

enum { RUNS = 3000 };

static vote_clause left_out;

static void leave_out(tarry_server *server)
{
    server->vote->lacks = left_out;
}

/* What it takes to find it. */
static const struct {
    const char *name;
    vote_clause clause;
    congress_settings settings;
} plants[] = {
    {"COMMIT before the log", VOTE_LOGS_FIRST, {.workers = 3}},
    {"one holder is enough",
     VOTE_TWO_HOLDERS,
     {.workers = 3, .faults = 1, .crashes = true, .failing = 12}},
    {"a held sum is not told", VOTE_MINDS_HELD, {.workers = 3, .faults = 3, .cuts = true}},
    {"steps of a left history",
     VOTE_MINDS_HISTORY,
     {.workers = 3, .faults = 6, .cuts = true, .crashes = true, .restarts = true}},
    {"digests don't matter", VOTE_MINDS_DIGESTS, {.workers = 3, .wrong = 3}},
    {"nobody is set aside", VOTE_SETS_ASIDE, {.workers = 3, .cuts = true, .failing = 8}},
    {"nobody is told of a loss", VOTE_BREAKS, {.workers = 3, .faults = 3, .crashes = true}},
    {"terms repeat", VOTE_NEW_TERM, {.workers = 3, .faults = 4, .cuts = true, .restarts = true}},
};

static bool finds(size_t plant, uint64_t seed)
{
    congress its;
    congress_settings settings = plants[plant].settings;
    settings.parts = 1;
    settings.prepare = leave_out;
    congress_begin(&its, &settings, seed);
    congress_run(&its, 4);
    congress_settle(&its);
    /* One fault never costs a committed step. */
    bool found = its.broken != NULL || (its.ended == TARRY_ERROR_GONE && settings.faults < 2);
    congress_end(&its);
    return found;
}

static void every_clause_is_missed(void **state)
{
    (void)state;
    uint64_t seed = test_seed("planted", 1);
    for (size_t i = 0; i < sizeof(plants) / sizeof(*plants); i++) {
        uint32_t run = 0;
        left_out = plants[i].clause;
        while (run < RUNS && !finds(i, seed + run))
            run++;
        print_message("%s: run %u\n", plants[i].name, run);
        if (run == RUNS)
            fail_msg("not found: %s", plants[i].name);
    }
}

/* And with all of them these runs are as they should be. */
static void the_whole_is_not(void **state)
{
    (void)state;
    left_out = VOTE_WHOLE;
    for (size_t i = 0; i < sizeof(plants) / sizeof(*plants); i++)
        for (uint32_t run = 0; run < RUNS / 50; run++)
            assert_false(finds(i, 1 + run));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_clause_is_missed),
        cmocka_unit_test(the_whole_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
