/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many random worlds. TARRY_TEST_RUNS sets how many; TARRY_TEST_RUN picks one of them, of the seed
 * TARRY_TEST_SEED, and prints all that happens in it.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "seed.h"
#include "sim/faults/shrink.h"

static uint32_t number_from(const char *variable, uint32_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 0) : fallback;
}

static void print_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

static void invariants_hold_in_random_worlds(void **state)
{
    (void)state;
    cluster_job job = {.seed = test_seed("scenario/random", 1)};
    uint32_t runs = number_from("TARRY_TEST_RUNS", 7000), first = 0;
    if (getenv("TARRY_TEST_RUN") != NULL) {
        first = number_from("TARRY_TEST_RUN", 0);
        runs = 1;
        job.trace = print_line;
        job.user = stdout;
    }
    cluster *world;
    assert_int_equal(cluster_create(NULL, &world), TARRY_OK);
    uint64_t steps = 0, rounds = 0, exact = 0, failed = 0, attempts = 0, late = 0, silent = 0;
    uint64_t restarts = 0, longest = 0, parted = 0, changed = 0, waits = 0, made_up = 0;
    uint64_t early = 0, withdrawn = 0, called_back = 0, raised = 0, replans = 0, turned = 0,
             evolved = 0;
    for (job.run = first; job.run - first < runs; job.run++) {
        assert_int_equal(cluster_run(world, &job), TARRY_OK);
        if (world->broken != NULL)
            fail_msg("%s: %s\nto repeat: TARRY_TEST_SEED=%" PRIu64 " TARRY_TEST_RUN=%u",
                     world->broken, world->why, job.seed, job.run);
        steps += world->steps;
        rounds += world->rounds_done;
        exact += world->exact_rounds;
        failed += world->failed_rounds;
        attempts += world->extra_attempts;
        late += world->passed_over;
        silent += world->given_up;
        made_up += world->made_up;
        called_back += world->called_back;
        early += world->left_early;
        withdrawn += world->withdrawn;
        restarts += world->restarts;
        raised += world->raised_rounds;
        parted += world->parted_rounds;
        changed += world->changed_parts;
        waits += world->waits;
        replans += world->replans;
        turned += world->turned;
        evolved += world->evolved_exact;
        longest = world->longest > longest ? world->longest : longest;
    }
    cluster_free(world);
    printf("%u runs, %" PRIu64 " rounds (%" PRIu64 " exact, %" PRIu64 " failed), %" PRIu64
           " steps, %" PRIu64 " repeated attempts, late workers passed over %" PRIu64
           " times (others made up for them %" PRIu64 " times), silent ones given up %" PRIu64
           " times, server restarts %" PRIu64 ", rounds with a raised limit %" PRIu64
           ", with more parts than the least %" PRIu64 ", repeated with others %" PRIu64
           ", waits for more %" PRIu64 ", changes of the plan %" PRIu64
           ", workers that turned %" PRIu64 ", rounds exact with a changed plan %" PRIu64
           ", signals before all %" PRIu64 ", attempts withdrawn then %" PRIu64
           ", longest round %.3f of the bound\n",
           runs, rounds, exact, failed, steps, attempts, late, made_up, silent, restarts, raised,
           parted, changed, waits, replans, turned, evolved, early, withdrawn,
           (double)longest / 1000);
    if (runs < 1000)
        return;
    /* The worlds are worth their name: each of these happens, and none is all that happens. */
    assert_true(rounds >= 2 * runs);
    assert_true(exact > rounds / 4 && exact < rounds);
    assert_true(failed > rounds / 100 && failed < rounds / 2);
    assert_true(attempts > rounds / 100 && late > made_up && made_up > 0 && silent > 0);
    assert_true(called_back > 0);
    assert_true(early > rounds / 50 && withdrawn > early / 200);
    assert_true(restarts > rounds / 100 && raised > rounds / 1000);
    assert_true(parted > rounds / 100 && changed > 0 && waits > 0);
    assert_true(replans > rounds / 10 && turned > replans && evolved > rounds / 20);
}

/* Some in which an invariant, or the check of it, was broken once: shares taken although copies
 * were missing; waiting for what nobody wants; news that came again after newer ones; orders that
 * another one of the same step replaces. */
static void worlds_that_broke_once_are_sound(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t run;
    } worlds[] = {{1, 37}, {1, 503}, {1, 5678}, {1, 125046}, {3, 15076}, {7, 175}};
    cluster *world;
    assert_int_equal(cluster_create(NULL, &world), TARRY_OK);
    for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++) {
        cluster_job job = {.seed = worlds[i].seed, .run = worlds[i].run};
        assert_int_equal(cluster_run(world, &job), TARRY_OK);
        if (world->broken != NULL)
            fail_msg("seed %" PRIu64 ", run %u: %s: %s", job.seed, job.run, world->broken,
                     world->why);
    }
    cluster_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worlds_that_broke_once_are_sound),
        cmocka_unit_test(invariants_hold_in_random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
