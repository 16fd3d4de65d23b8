/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_faults.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cli/output/clock.h"
#include "cli/output/interrupt.h"
#include "cli/output/progress.h"

/* Runs that a thread takes at a time: with one plan, see CLUSTER_PLAN_RUNS. */
enum { BATCH = 4 * CLUSTER_PLAN_RUNS };

typedef struct crew {
    fault_campaign *all;
    atomic_bool stop;
    pthread_mutex_t lock; /* for all below, and for what `all` counts */
    uint64_t next;        /* runs given out */
    int error;
    progress line;
} crew;

static void add_counts(fault_campaign *all, const fault_campaign *more)
{
    all->done += more->done;
    all->rounds += more->rounds;
    all->exact += more->exact;
    all->failed += more->failed;
    all->attempts += more->attempts;
    all->late += more->late;
    all->silent += more->silent;
    all->restarts += more->restarts;
    all->replans += more->replans;
    all->turned += more->turned;
    all->steps += more->steps;
    all->faults += more->faults;
    all->commits += more->commits;
    all->returns += more->returns;
    all->fetches += more->fetches;
    all->loads += more->loads;
    all->differing += more->differing;
    all->secure_sums += more->secure_sums;
    all->secure_repeated += more->secure_repeated;
    all->second_lives += more->second_lives;
    all->torn_sums += more->torn_sums;
    for (int phase = MODEL_IDLE; phase <= MODEL_CODING; phase++)
        all->planned[phase] += more->planned[phase];
    all->longest = more->longest > all->longest ? more->longest : all->longest;
}

/* Runs in order up to the first broken one. */
static int run_batch(crew *it, cluster *world, uint64_t start, uint64_t past,
                     fault_campaign *counts)
{
    for (uint64_t run = start; run < past && !atomic_load(&it->stop); run++) {
        cluster_job job = {
            .seed = it->all->seed,
            .run = it->all->first + (uint32_t)run,
            .sum = it->all->sum,
            .secure = it->all->secure,
            .planted = it->all->planted,
        };
        int error = cluster_run(world, &job);
        if (error != TARRY_OK)
            return error;
        add_counts(counts,
                   &(fault_campaign){
                       .done = 1,
                       .rounds = world->rounds_done,
                       .exact = world->exact_rounds,
                       .failed = world->failed_rounds,
                       .attempts = world->extra_attempts,
                       .late = world->passed_over,
                       .silent = world->given_up,
                       .restarts = world->restarts,
                       .replans = world->replans,
                       .turned = world->turned,
                       .steps = world->steps,
                       .faults = world->draws.struck.count,
                       .commits = world->commits,
                       .returns = world->returns,
                       .fetches = world->fetches,
                       .loads = world->loads,
                       .differing = world->differing,
                       .secure_sums = world->secure.sums,
                       .secure_repeated = world->secure.repeated,
                       .second_lives = world->secure.second_lives,
                       .torn_sums = world->secure.torn,
                       .planned = {world->planned[MODEL_IDLE], world->planned[MODEL_COMPUTING],
                                   world->planned[MODEL_CODING]},
                       .longest = world->longest,
                   });
        if (world->broken != NULL) {
            counts->broken = true;
            counts->broken_run = job.run;
            return TARRY_OK;
        }
    }
    return TARRY_OK;
}

static void finish_batch(crew *it, const fault_campaign *counts, int error)
{
    fault_campaign *all = it->all;
    add_counts(all, counts);
    if (counts->broken && (!all->broken || counts->broken_run < all->broken_run)) {
        all->broken = true;
        all->broken_run = counts->broken_run;
    }
    if (error != TARRY_OK)
        it->error = error;
    char detail[64];
    snprintf(detail, sizeof(detail), "%" PRIu64 " rounds", all->rounds);
    progress_update(&it->line, all->done, detail);
}

/* Batches are given out in order, none after a broken one, and each is run to its end or fault: so
 * the first broken run is the same however many threads there are. */
static bool take_batch(crew *it, uint64_t *start, uint64_t *past)
{
    const fault_campaign *all = it->all;
    if (it->next >= all->runs || it->error != TARRY_OK || all->broken || atomic_load(&it->stop))
        return false;
    *start = it->next;
    *past = *start + BATCH < all->runs ? *start + BATCH : all->runs;
    it->next = *past;
    return true;
}

static void *work(void *user)
{
    crew *it = user;
    cluster *world = NULL;
    int error = cluster_create(NULL, &world);
    uint64_t start, past;
    pthread_mutex_lock(&it->lock);
    if (error != TARRY_OK)
        it->error = error;
    while (take_batch(it, &start, &past)) {
        pthread_mutex_unlock(&it->lock);
        fault_campaign counts = {0};
        error = run_batch(it, world, start, past, &counts);
        pthread_mutex_lock(&it->lock);
        finish_batch(it, &counts, error);
    }
    pthread_mutex_unlock(&it->lock);
    cluster_free(world);
    return NULL;
}

static void stop_crew(void *user)
{
    crew *it = user;
    atomic_store(&it->stop, true);
}

/* This thread works too, so that a machine that grants no other still gets done. */
static void run_crew(crew *it)
{
    pthread_t threads[FAULT_MOST_JOBS];
    uint32_t started = 0;
    while (started + 1 < it->all->jobs && pthread_create(&threads[started], NULL, work, it) == 0)
        started++;
    work(it);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

int fault_campaign_run(fault_campaign *it)
{
    crew all = {.all = it};
    interrupt *signals;
    int error = interrupt_begin(stop_crew, &all, &signals);
    if (error != TARRY_OK)
        return error;
    char what[96];
    snprintf(what, sizeof(what), "simulating %" PRIu32 " small worlds with faults", it->runs);
    pthread_mutex_init(&all.lock, NULL);
    double start = clock_seconds();
    progress_begin(&all.line, 0, it->runs, "run", it->quiet, what);
    run_crew(&all);
    progress_end(&all.line);
    it->seconds = clock_seconds() - start;
    pthread_mutex_destroy(&all.lock);
    if (all.error == TARRY_OK && interrupt_seen(signals))
        all.error = TARRY_ERROR_INTERRUPTED;
    interrupt_end(signals);
    return all.error;
}
