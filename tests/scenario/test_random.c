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
#include "sim/shrink/shrink.h"

static uint32_t number_from(const char *variable, uint32_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 0) : fallback;
}

static void print_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

/* What happened in all worlds. */
typedef struct totals {
    uint64_t steps, rounds, exact, failed, attempts, late, silent, restarts, longest, parted,
        changed;
    uint64_t waits, made_up, called_back, raised, replans, turned, evolved;
    uint64_t pieces, rounded; /* attempts of which something stood; in another form than float32 */
    uint64_t commits, returns, fetches, loads, differing;
    uint64_t residuals, voids;                  /* of parts that stood; thrown away */
    uint64_t changes, wholes, cuts, brought_up; /* of views */
    uint64_t secure, repeated, second_lives;    /* sums; of them, those of repeated attempts */
    uint64_t torn;                              /* those where one was told other terms */
} totals;

static void count(totals *all, const cluster *world)
{
    all->steps += world->steps;
    all->rounds += world->rounds_done;
    all->exact += world->exact_rounds;
    all->failed += world->failed_rounds;
    all->attempts += world->extra_attempts;
    all->late += world->passed_over;
    all->silent += world->given_up;
    all->made_up += world->made_up;
    all->called_back += world->called_back;
    all->restarts += world->restarts;
    all->raised += world->raised_rounds;
    all->parted += world->parted_rounds;
    all->changed += world->changed_parts;
    all->waits += world->waits;
    all->replans += world->replans;
    all->turned += world->turned;
    all->evolved += world->evolved_exact;
    all->commits += world->commits;
    all->returns += world->returns;
    all->fetches += world->fetches;
    all->pieces += world->pieces;
    all->rounded += world->rounded_sums;
    all->loads += world->loads;
    all->differing += world->differing;
    all->residuals += world->feedback.commits;
    all->voids += world->feedback.voids;
    all->changes += world->seen.changes;
    all->wholes += world->seen.wholes;
    all->cuts += world->seen.cuts;
    all->brought_up += world->seen.brought_up;
    all->secure += world->secure.sums;
    all->repeated += world->secure.repeated;
    all->second_lives += world->secure.second_lives;
    all->torn += world->secure.torn;
    all->longest = world->longest > all->longest ? world->longest : all->longest;
}

/* Gives back how many worlds there were. */
static uint32_t run_job(cluster_job job, uint32_t runs, totals *all)
{
    job.seed = test_seed("scenario/random", 1);
    uint32_t first = 0;
    if (getenv("TARRY_TEST_RUN") != NULL) {
        first = number_from("TARRY_TEST_RUN", 0);
        runs = 1;
        job.trace = print_line;
        job.user = stdout;
    }
    cluster *world;
    assert_int_equal(cluster_create(NULL, &world), TARRY_OK);
    for (job.run = first; job.run - first < runs; job.run++) {
        assert_int_equal(cluster_run(world, &job), TARRY_OK);
        if (world->broken != NULL)
            fail_msg("%s: %s\nto repeat: TARRY_TEST_SEED=%" PRIu64 " TARRY_TEST_RUN=%u",
                     world->broken, world->why, job.seed, job.run);
        count(all, world);
    }
    cluster_free(world);
    printf("%u runs, %" PRIu64 " rounds (%" PRIu64 " exact, %" PRIu64 " failed), %" PRIu64
           " steps, %" PRIu64 " repeated attempts, silent workers given up %" PRIu64
           " times, server restarts %" PRIu64 ", rounds with a raised limit %" PRIu64
           ", with more parts than the least %" PRIu64 ", repeated with others %" PRIu64
           ", changes of the plan %" PRIu64 ", workers that turned %" PRIu64
           ", rounds exact with a changed plan %" PRIu64 ", longest round %.3f of the bound\n",
           runs, all->rounds, all->exact, all->failed, all->steps, all->attempts, all->silent,
           all->restarts, all->raised, all->parted, all->changed, all->replans, all->turned,
           all->evolved, (double)all->longest / 1000);
    return runs;
}

static uint32_t run_worlds(tarry_sum_place sum, uint32_t runs, totals *all)
{
    return run_job((cluster_job){.sum = sum}, runs, all);
}

/* The worlds are worth their name: each of these happens, and none is all that happens. */
static void assert_much_happened(const totals *all, uint32_t runs)
{
    assert_true(all->rounds >= 2 * runs);
    assert_true(all->exact > all->rounds / 4 && all->exact < all->rounds);
    assert_true(all->failed > all->rounds / 100 && all->failed < all->rounds / 2);
    assert_true(all->attempts > all->rounds / 100 && all->silent > 0);
    assert_true(all->restarts > all->rounds / 100 && all->raised > all->rounds / 1000);
    assert_true(all->parted > all->rounds / 100 && all->changed > 0 && all->waits > 0);
    assert_true(all->replans > all->rounds / 10 && all->turned > all->replans &&
                all->evolved > all->rounds / 20);
}

static void invariants_hold_in_random_worlds(void **state)
{
    (void)state;
    totals all = {0};
    uint32_t runs = run_worlds(TARRY_SUM_SERVER, number_from("TARRY_TEST_RUNS", 7000), &all);
    printf("late workers passed over %" PRIu64 " times (others made up for them %" PRIu64
           " times), waits for more parts %" PRIu64 ", residuals that stood %" PRIu64
           ", and that were thrown away %" PRIu64 "\n",
           all.late, all.made_up, all.waits, all.residuals, all.voids);
    if (runs < 1000)
        return;
    assert_much_happened(&all, runs);
    assert_true(all.late > all.made_up && all.made_up > 0 && all.called_back > 0);
    assert_true(all.residuals > all.rounds / 4 && all.voids > all.rounds / 50);
    printf("views sent %" PRIu64 ", changes of them %" PRIu64 ", cut off %" PRIu64
           ", several for one round %" PRIu64 "\n",
           all.wholes, all.changes, all.cuts, all.brought_up);
    assert_true(all.changes > all.rounds / 4 && all.cuts > 0 && all.brought_up > 0);
    assert_true(all.secure > all.rounds / 100);
}

/* A third as many: the vote takes no more than these to go wrong. */
static void invariants_hold_where_everyone_gets_the_sum(void **state)
{
    (void)state;
    totals all = {0};
    uint32_t runs =
        run_worlds(TARRY_SUM_EVERYWHERE, number_from("TARRY_TEST_RUNS", 7000) / 3, &all);
    printf("sums committed %" PRIu64 ", returns to a checkpoint %" PRIu64 ", fetched sums %" PRIu64
           ", loaded states %" PRIu64 ", workers with other parameters %" PRIu64 "\n",
           all.commits, all.returns, all.fetches, all.loads, all.differing);
    if (runs < 400)
        return;
    assert_true(all.commits > all.rounds / 4 && all.exact > all.rounds / 4);
    assert_true(all.failed > 0 && all.attempts > all.rounds / 20 && all.restarts > 0);
    printf("attempts of which something stood %" PRIu64 ", in another form than float32 %" PRIu64
           "\n",
           all.pieces, all.rounded);
    assert_true(all.rounded > all.commits / 20);
    assert_true(all.fetches > all.rounds / 50 && all.loads > all.rounds / 50);
    assert_true(all.differing > all.rounds / 200);
    assert_true(all.returns > 0 || runs < 2000); /* it takes a crash of all who hold a sum */
    assert_true(all.turned > all.replans && all.replans > all.rounds / 20);
}

/* All sums are secure; in the worlds above some are. */
static void invariants_hold_where_sums_are_secure(void **state)
{
    (void)state;
    totals all = {0};
    uint32_t runs =
        run_job((cluster_job){.secure = true}, number_from("TARRY_TEST_RUNS", 7000) / 10, &all);
    printf("secure sums %" PRIu64 ", of repeated attempts %" PRIu64 ", second lives %" PRIu64
           ", torn %" PRIu64 "\n",
           all.secure, all.repeated, all.second_lives, all.torn);
    if (runs < 150)
        return;
    assert_true(all.secure == all.exact && all.secure > all.rounds / 2 && all.failed > 0);
    assert_true(all.repeated > all.secure / 20 && all.second_lives > all.rounds / 20);
    assert_true(all.torn > all.secure / 20 && all.torn < all.secure / 2);
    assert_true(all.turned > all.replans && all.evolved > all.rounds / 20 && all.restarts > 0);
}

static void assert_sound(cluster *world, const cluster_job *job)
{
    assert_int_equal(cluster_run(world, job), TARRY_OK);
    if (world->broken != NULL)
        fail_msg("seed %" PRIu64 ", run %u: %s: %s", job->seed, job->run, world->broken,
                 world->why);
}

/* Some in which an invariant, or the check of it, was broken once: shares taken although copies
 * were missing; waiting for what nobody wants; news that came again after newer ones; orders that
 * another one of the same step replaces. Sums among workers: an ASK of another plan that counts as
 * the last one's; a round of a dead connection; an answer that overtakes a state; the entry of a
 * round that was given up; copies that do for three parts and not for two; a round that goes on
 * after its step; an attempt that opens although somebody who is needed is on the way; a round that
 * goes on and has nobody to tell it; words of a worker that came anew that were taken for old ones;
 * an order just before a call back; a state that is loaded, of a later sum than ordered, and never
 * compared; a call back in the step that ends the round; one that comes while a return is written;
 * a pause after RESUME; a return although somebody has the last state, but with parameters that are
 * not right; a word on a round that was yet to begin. */
static void worlds_that_broke_once_are_sound(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t run;
        tarry_sum_place sum;
    } worlds[] = {
        {1, 37, TARRY_SUM_SERVER},           {1, 503, TARRY_SUM_SERVER},
        {1, 5678, TARRY_SUM_SERVER},         {1, 125046, TARRY_SUM_SERVER},
        {3, 15076, TARRY_SUM_SERVER},        {7, 175, TARRY_SUM_SERVER},
        {1, 4555, TARRY_SUM_EVERYWHERE},     {1, 12140, TARRY_SUM_EVERYWHERE},
        {1, 15987, TARRY_SUM_EVERYWHERE},    {1, 27997, TARRY_SUM_EVERYWHERE},
        {1, 30724, TARRY_SUM_EVERYWHERE},    {7, 10631, TARRY_SUM_EVERYWHERE},
        {1, 16298, TARRY_SUM_EVERYWHERE},    {91023, 477, TARRY_SUM_EVERYWHERE},
        {2, 19983, TARRY_SUM_EVERYWHERE},    {5, 11421, TARRY_SUM_EVERYWHERE},
        {12, 34914, TARRY_SUM_EVERYWHERE},   {5, 54134, TARRY_SUM_EVERYWHERE},
        {32, 9128, TARRY_SUM_EVERYWHERE},    {2, 49525, TARRY_SUM_EVERYWHERE},
        {7101, 11036, TARRY_SUM_EVERYWHERE}, {302, 2239, TARRY_SUM_EVERYWHERE},
        {7201, 9593, TARRY_SUM_EVERYWHERE},  {7303, 11687, TARRY_SUM_EVERYWHERE},
        {7503, 1115, TARRY_SUM_EVERYWHERE},
    };
    cluster *world;
    assert_int_equal(cluster_create(NULL, &world), TARRY_OK);
    for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++)
        assert_sound(
            world,
            &(cluster_job){.seed = worlds[i].seed, .run = worlds[i].run, .sum = worlds[i].sum});
    cluster_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worlds_that_broke_once_are_sound),
        cmocka_unit_test(invariants_hold_in_random_worlds),
        cmocka_unit_test(invariants_hold_where_everyone_gets_the_sum),
        cmocka_unit_test(invariants_hold_where_sums_are_secure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
