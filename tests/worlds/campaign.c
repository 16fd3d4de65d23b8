/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/campaign.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cli/output/clock.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"

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

/* Runs in order up to the first broken one. */
static int run_batch(crew *it, cluster *world, uint64_t start, uint64_t past)
{
    for (uint64_t run = start; run < past && !atomic_load(&it->stop); run++) {
        cluster_job job = it->all->job;
        job.run = it->all->first + (uint32_t)run;
        int error = cluster_run(world, &job);
        if (error != TARRY_OK)
            return error;
        pthread_mutex_lock(&it->lock);
        world_counts_add(&it->all->counts, world);
        pthread_mutex_unlock(&it->lock);
        if (world->broken != NULL)
            break;
    }
    return TARRY_OK;
}

static void finish_batch(crew *it, const cluster *world, int error)
{
    fault_campaign *all = it->all;
    if (world->broken != NULL && (!all->broken || world->job.run < all->broken_run)) {
        all->broken = true;
        all->broken_run = world->job.run;
        snprintf(all->broken_by, sizeof(all->broken_by), "%s", world->broken);
        snprintf(all->why, sizeof(all->why), "%s", world->why);
    }
    if (error != TARRY_OK)
        it->error = error;
    char detail[64];
    snprintf(detail, sizeof(detail), "%" PRIu64 " rounds", all->counts.rounds);
    progress_update(&it->line, all->counts.worlds, detail);
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
        error = run_batch(it, world, start, past);
        pthread_mutex_lock(&it->lock);
        finish_batch(it, world, error);
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
