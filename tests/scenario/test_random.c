/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many random worlds. TARRY_TEST_RUNS sets how many; TARRY_TEST_RUN picks one of them, of the seed
 * TARRY_TEST_SEED, and prints all that happens in it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "books.h"
#include "seed.h"
#include "test.h"
#include "worlds/shrink.h"

static uint32_t number_from(const char *variable, uint32_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 0) : fallback;
}

static void print_line(void *user, const char *line)
{
    fprintf(user, "%s\n", line);
}

/* What is on its way to the worker, or from it; and what waits for it to turn to a plan. */
static bool is_spoken_to(const cluster *world, uint32_t worker)
{
    const memory_event *event;
    for (size_t i = 0; (event = memory_network_look(world->network, i)) != NULL; i++)
        if (event->from == worker || event->to == worker)
            return true;
    return world->nodes[worker].turning;
}

static uint64_t views, resting; /* of workers, and of those at nothing */

/* Where the server makes the sum, by a dynamic order: the books agree at every step, and as soon as
 * nothing is on its way between the two, the server knows what a worker is at. */
static void watch_steering(void *user, const cluster *world)
{
    (void)user;
    const tarry_server *server = world->server;
    books_agree(server);
    for (uint32_t worker = 0; server->steering != NULL && worker < world->workers; worker++) {
        const cluster_node *node = &world->nodes[worker];
        const server_member *member = &server->members[worker];
        if (world->reorder_down || server->phase != SERVER_COMPUTING || !member_able(member) ||
            member->stopped || node->machine == NULL || !cluster_connected(world, worker) ||
            is_spoken_to(world, worker))
            continue;
        uint32_t at = server->steering->workers[worker].current;
        uint32_t load = tarry_plan_load(world->plan, worker);
        uint32_t taken = at < load ? bit(tarry_plan_chunk(world->plan, worker, at)) : 0;
        if (taken != node->at)
            fail_msg("seed %" PRIu64 ", run %u, %" PRIu64 ": worker %u is at %#x, taken for %#x",
                     world->job.seed, world->job.run, world->now, worker, node->at, taken);
        views++;
        resting += at == load;
    }
}

static void assert_sound(cluster *world, const cluster_job *job)
{
    assert_ok(cluster_run(world, job));
    if (world->broken != NULL)
        fail_msg("%s: %s\nto repeat: TARRY_TEST_SEED=%" PRIu64 " TARRY_TEST_RUN=%u", world->broken,
                 world->why, job->seed, job->run);
}

/* Gives back how many worlds there were. */
static uint32_t run_job(cluster_job job, uint32_t runs, world_counts *all)
{
    job.seed = test_seed("scenario/random", 1);
    job.watch = job.sum == TARRY_SUM_SERVER ? watch_steering : NULL;
    uint32_t first = 0;
    if (getenv("TARRY_TEST_RUN") != NULL) {
        first = number_from("TARRY_TEST_RUN", 0);
        runs = 1;
        job.trace = print_line;
        job.user = stdout;
    }
    cluster *world;
    assert_ok(cluster_create(NULL, &world));
    for (job.run = first; job.run - first < runs; job.run++) {
        assert_sound(world, &job);
        world_counts_add(all, world);
    }
    cluster_free(world);
    printf("%u runs, %" PRIu64 " rounds (%" PRIu64 " exact, %" PRIu64 " failed), %" PRIu64
           " steps, %" PRIu64 " repeated attempts, silent workers given up %" PRIu64
           " times, server restarts %" PRIu64 ", changes of the plan %" PRIu64
           ", workers that turned %" PRIu64 ", rounds exact with a changed plan %" PRIu64
           ", longest round %.3f of the bound\n",
           runs, all->rounds, all->exact, all->failed, all->steps, all->attempts, all->silent,
           all->restarts, all->replans, all->turned, all->evolved, (double)all->longest / 1000);
    return runs;
}

/* The worlds are worth their name: each of these happens, and none is all that happens. */
static void assert_much_happened(const world_counts *all, uint32_t runs)
{
    assert_true(all->rounds >= 2 * runs);
    assert_true(all->exact > all->rounds / 4 && all->exact < all->rounds);
    assert_true(all->failed > all->rounds / 100 && all->failed < all->rounds / 2);
    assert_true(all->attempts > all->rounds / 100 && all->silent > 0);
    assert_true(all->restarts > all->rounds / 100);
    assert_true(all->replans > all->rounds / 10 && all->turned > all->replans &&
                all->evolved > all->rounds / 20);
}

TEST(invariants_hold_in_random_worlds)
{
    world_counts all = {0};
    uint32_t runs = run_job((cluster_job){0}, number_from("TARRY_TEST_RUNS", 7000), &all);
    printf("late workers passed over %" PRIu64 " times (others made up for them %" PRIu64
           " times), residuals that stood %" PRIu64 ", and that were thrown away %" PRIu64 "\n",
           all.late, all.made_up, all.residuals, all.voids);
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
    printf("looks at what workers are at %" PRIu64 ", of them at nothing %" PRIu64 "\n", views,
           resting);
    assert_true(views > all.rounds && resting > all.rounds / 20);
}

/* A third as many: the vote takes no more than these to go wrong. */
TEST(invariants_hold_where_everyone_gets_the_sum)
{
    world_counts all = {0};
    uint32_t runs = run_job((cluster_job){.sum = TARRY_SUM_EVERYWHERE},
                            number_from("TARRY_TEST_RUNS", 7000) / 3, &all);
    printf("sums committed %" PRIu64 ", returns to a checkpoint %" PRIu64 ", fetched sums %" PRIu64
           ", loaded states %" PRIu64 ", workers with other parameters %" PRIu64 "\n",
           all.commits, all.returns, all.fetches, all.loads, all.differing);
    if (runs < 400)
        return;
    assert_true(all.commits > all.rounds / 4 && all.exact > all.rounds / 4);
    assert_true(all.failed > 0 && all.attempts > all.rounds / 20 && all.restarts > 0);
    printf("attempts in another form than float32 %" PRIu64 "\n", all.rounded);
    assert_true(all.rounded > all.commits / 20);
    assert_true(all.fetches > all.rounds / 50 && all.loads > all.rounds / 50);
    assert_true(all.differing > all.rounds / 200);
    assert_true(all.returns > 0 || runs < 2000); /* it takes a crash of all who hold a sum */
    assert_true(all.turned > all.replans && all.replans > all.rounds / 20);
}

/* Once no fault strikes any more, everyone who is there gets the last state. */
TEST(everyone_gets_the_last_state)
{
    world_counts all = {0};
    run_job((cluster_job){.sum = TARRY_SUM_EVERYWHERE, .settles = true},
            number_from("TARRY_TEST_RUNS", 7000) / 10, &all);
}

TEST(without_faults_every_attempt_is_committed)
{
    static const fault_list none;
    world_counts all = {0};
    run_job((cluster_job){.sum = TARRY_SUM_EVERYWHERE, .settles = true, .allowed = &none}, 100,
            &all);
    assert_int_equal(all.commits + all.failed, all.rounds);
    assert_true(all.commits > all.rounds / 2);
    assert_int_equal(all.attempts, 0);
}

/* All sums are secure; in the worlds above some are. */
TEST(invariants_hold_where_sums_are_secure)
{
    world_counts all = {0};
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

/* Some in which an invariant, or the check of it, was broken once: shares taken although copies
 * were missing; waiting for what nobody wants; news that came again after newer ones; orders that
 * another one of the same step replaces; what stood, of a worker that was away while the plan
 * became another one and the old one again. Sums among workers: an ASK of another plan that counts
 * as the last one's; a round of a dead connection; an answer that overtakes a state; the entry of a
 * round that was given up; copies that do for three parts and not for two; a round that goes on
 * after its step; an attempt that opens although somebody who is needed is on the way; a round that
 * goes on and has nobody to tell it; words of a worker that came anew that were taken for old ones;
 * an order just before a call back; a state that is loaded, of a later sum than ordered, and never
 * compared; a call back in the step that ends the round; one that comes while a return is written;
 * a pause after RESUME; a return although somebody has the last state, but with parameters that are
 * not right; a word on a round that was yet to begin. */
TEST(worlds_that_broke_once_are_sound)
{
    static const struct {
        uint64_t seed;
        uint32_t run;
        tarry_sum_place sum;
    } worlds[] = {
        {1, 37, TARRY_SUM_SERVER},           {1, 503, TARRY_SUM_SERVER},
        {1, 5678, TARRY_SUM_SERVER},         {1, 125046, TARRY_SUM_SERVER},
        {3, 15076, TARRY_SUM_SERVER},        {7, 175, TARRY_SUM_SERVER},
        {5, 14942, TARRY_SUM_SERVER},        {1, 4555, TARRY_SUM_EVERYWHERE},
        {1, 12140, TARRY_SUM_EVERYWHERE},    {1, 15987, TARRY_SUM_EVERYWHERE},
        {1, 27997, TARRY_SUM_EVERYWHERE},    {1, 30724, TARRY_SUM_EVERYWHERE},
        {7, 10631, TARRY_SUM_EVERYWHERE},    {1, 16298, TARRY_SUM_EVERYWHERE},
        {91023, 477, TARRY_SUM_EVERYWHERE},  {2, 19983, TARRY_SUM_EVERYWHERE},
        {5, 11421, TARRY_SUM_EVERYWHERE},    {12, 34914, TARRY_SUM_EVERYWHERE},
        {5, 54134, TARRY_SUM_EVERYWHERE},    {32, 9128, TARRY_SUM_EVERYWHERE},
        {2, 49525, TARRY_SUM_EVERYWHERE},    {7101, 11036, TARRY_SUM_EVERYWHERE},
        {302, 2239, TARRY_SUM_EVERYWHERE},   {7201, 9593, TARRY_SUM_EVERYWHERE},
        {7303, 11687, TARRY_SUM_EVERYWHERE}, {7503, 1115, TARRY_SUM_EVERYWHERE},
    };
    cluster *world;
    assert_ok(cluster_create(NULL, &world));
    for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++)
        assert_sound(
            world,
            &(cluster_job){.seed = worlds[i].seed, .run = worlds[i].run, .sum = worlds[i].sum});
    cluster_free(world);
}
