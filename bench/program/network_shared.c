/* SPDX-License-Identifier: Apache-2.0 */
#include "program/network.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "program/site.h"

enum { WARM_UP = 2 };

/* The first rounds write the gradients, so that their memory is there; later ones leave them. */
typedef struct gradients {
    size_t dimension;
    _Atomic bool written;
} gradients;

typedef struct real_worker {
    tarry_tcp_worker *worker;
    pthread_t thread;
    bool started;
    int error;
    tarry_diagnostic diagnostic;
} real_worker;

/* A server and the runtime's own workers, on one of two ways. */
typedef struct way {
    bench_site site;
    real_worker *workers;
    uint32_t count;
} way;

static int compute(void *user, const tarry_task *task)
{
    const gradients *own = user;
    if (!atomic_load(&own->written))
        for (size_t i = 0; i < own->dimension; i++)
            task->gradient[i] = (float)(task->spans[0].origin + 1);
    return 0;
}

static void *run_worker(void *argument)
{
    real_worker *its = argument;
    its->error = tarry_tcp_worker_run(its->worker, &its->diagnostic);
    return NULL;
}

static int start_worker(way *its, uint32_t index, gradients *own, bool share,
                        tarry_diagnostic *diagnostic)
{
    real_worker *made = &its->workers[index];
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = tarry_runtime_address(its->site.server, 0);
    settings.security.insecure = true;
    settings.worker = index;
    settings.compute = compute;
    settings.user = own;
    settings.share = share;
    settings.seed = index + 1;
    int error = tarry_tcp_worker_create(&settings, NULL, &made->worker, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (pthread_create(&made->thread, NULL, run_worker, made) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a thread can't be started");
    made->started = true;
    return TARRY_OK;
}

static int open_way(way *its, const bench_site_settings *wanted, gradients *own,
                    tarry_diagnostic *diagnostic)
{
    int error = bench_site_open(&its->site, wanted, diagnostic);
    if (error != TARRY_OK)
        return error;
    its->workers = memory_allocate(NULL, wanted->plan.workers, sizeof(*its->workers));
    if (its->workers == NULL)
        return diagnose_no_memory(diagnostic, "workers");
    for (; error == TARRY_OK && its->count < wanted->plan.workers; its->count++)
        error = start_worker(its, its->count, own, wanted->share, diagnostic);
    return error == TARRY_OK ? bench_site_wait(&its->site, diagnostic) : error;
}

static int close_way(way *its, int error, tarry_diagnostic *diagnostic)
{
    bench_site_close(&its->site);
    for (uint32_t i = 0; i < its->count; i++) {
        real_worker *one = &its->workers[i];
        if (one->started)
            pthread_join(one->thread, NULL);
        if (error == TARRY_OK && one->error != TARRY_OK)
            error = diagnose(diagnostic, one->error, "a worker: %s", one->diagnostic.text);
        tarry_tcp_worker_free(one->worker);
    }
    memory_release(NULL, its->workers);
    return error;
}

/* Whether all workers are there by shared memory, or none is. */
static int check_ways(const way ways[2], tarry_diagnostic *diagnostic)
{
    for (uint32_t share = 0; share < 2; share++)
        for (uint32_t i = 0; i < ways[share].count; i++)
            if (tarry_runtime_worker(ways[share].site.server, i).shares_memory != (share == 1))
                return diagnose(diagnostic, TARRY_ERROR_STATE,
                                share == 1 ? "a worker does not share memory with the server"
                                           : "a worker shares memory that is not to");
    return TARRY_OK;
}

static int take_turns(way ways[2], gradients *own, const bench_network_settings *settings,
                      double *samples, bench_network_pair *pair, tarry_diagnostic *diagnostic)
{
    uint32_t rounds = settings->rounds;
    double bytes = (double)settings->workers * (double)settings->dimension * sizeof(float);
    for (uint32_t i = 0; i < WARM_UP + rounds; i++) {
        bench_site_round over[2];
        atomic_store(&own->written, i >= WARM_UP);
        for (uint32_t share = 0; share < 2; share++) {
            int error = bench_site_run(&ways[share].site, &over[share], diagnostic);
            if (error != TARRY_OK)
                return error;
        }
        if (i < WARM_UP)
            continue;
        uint32_t sample = i - WARM_UP;
        samples[sample] = bytes / over[0].seconds;
        samples[rounds + sample] = bytes / over[1].seconds;
        samples[2 * rounds + sample] = over[0].seconds / over[1].seconds;
    }
    *pair = (bench_network_pair){
        .bare = quantile_of(samples, rounds, 0.5),
        .ours = quantile_of(samples + rounds, rounds, 0.5),
        .ratio = quantile_of(samples + (size_t)2 * rounds, rounds, 0.5),
    };
    return check_ways(ways, diagnostic);
}

int bench_network_shared(const bench_network_settings *settings, bench_network_pair *pair,
                         tarry_diagnostic *diagnostic)
{
    gradients own = {.dimension = settings->dimension};
    way ways[2] = {{.count = 0}, {.count = 0}};
    bench_site_settings wanted = {
        .dimension = settings->dimension,
        .stripe_length = settings->stripe_length,
    };
    tarry_plan_settings_init(&wanted.plan);
    wanted.plan.workers = wanted.plan.chunks = settings->workers;
    wanted.plan.replication = 1;
    double *samples = memory_allocate(NULL, (size_t)3 * settings->rounds, sizeof(double));
    if (samples == NULL)
        return diagnose_no_memory(diagnostic, "network");
    int error = open_way(&ways[0], &wanted, &own, diagnostic);
    wanted.share = true;
    if (error == TARRY_OK)
        error = open_way(&ways[1], &wanted, &own, diagnostic);
    if (error == TARRY_OK)
        error = take_turns(ways, &own, settings, samples, pair, diagnostic);
    error = close_way(&ways[0], error, diagnostic);
    error = close_way(&ways[1], error, diagnostic);
    memory_release(NULL, samples);
    return error;
}
