/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever rounds over a network can be told to do, with connections that break every few
 * milliseconds and plans that change: every round ends, and what is exact is the true sum. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/random.h"
#include "cluster.h"
#include "edge_plan.h"
#include "proxy.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 8, CASES = 10, ROUNDS = 6, MOST_CHUNKS = 256 };

typedef struct cutter {
    proxy *proxy;
    random_stream stream;
    uint32_t most_us; /* between two cuts */
    _Atomic bool cuts, stop;
    pthread_t thread;
} cutter;

static void *cut(void *argument)
{
    cutter *its = argument;
    while (!its->stop) {
        usleep(random_below(&its->stream, its->most_us));
        if (its->cuts)
            proxy_cut(its->proxy, random_u32(&its->stream));
    }
    return NULL;
}

static void choose_server(cluster *its, random_stream *stream)
{
    tarry_server_settings *server = &its->settings.server;
    server->stripe_length = 64 + random_below(stream, 400);
    server->deadline_ns = 3000000;
    server->error_limit = 0.4;
    server->workers_needed = 5;
    server->reproducible = random_below(stream, 3) == 0;
    if (server->reproducible)
        return; /* all else would depend on time */
    server->stop = (tarry_stop)random_below(stream, TARRY_STOP_WORKERS + 1);
    if (server->stop != TARRY_STOP_WORKERS)
        server->pick = (tarry_pick)random_below(stream, TARRY_PICK_SHARE + 1);
    if (its->plan_settings.parts == 1 && random_below(stream, 2))
        server->keep = TARRY_KEEP_CREDITED;
    else if (server->stop == TARRY_STOP_DEADLINE || server->stop == TARRY_STOP_ERROR)
        server->fill = (tarry_fill)random_below(stream, TARRY_FILL_STALE + 1);
}

static void choose(cluster *its, random_stream *stream)
{
    static const char *const specs[] = {NULL, "exp:0.0005/chunk", "exp:0.002/chunk"};
    cluster_init(its);
    its->workers = its->plan_settings.workers = WORKERS;
    its->plan_settings.replication = 4;
    its->plan_settings.chunks = WORKERS * (1 + random_below(stream, 3));
    its->plan_settings.parts = 1 + random_below(stream, 3);
    its->dimension = 1000 + random_below(stream, 4000);
    its->tls = random_below(stream, 4) == 0;
    its->ships = random_below(stream, 3) == 0;
    its->settings.decode_threads = random_below(stream, 4); /* 0: chosen, on few cores none */
    its->straggler_spec = specs[random_below(stream, 3)];
    choose_server(its, stream);
    if (its->straggler_spec != NULL)
        assert_ok(
            tarry_straggler_create(its->straggler_spec, WORKERS, 1, NULL, &its->straggler, NULL));
}

static void replan(cluster *its, random_stream *stream)
{
    double cost[MOST_CHUNKS];
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    assert_true(tarry_plan_chunks(its->plan) <= MOST_CHUNKS);
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(its->plan); chunk++)
        cost[chunk] = 1 + random_below(stream, 8);
    wanted.cost = cost;
    wanted.heaviest = 2;
    cluster_replan(its, plan_evolve(its->plan, &wanted, NULL));
}

/* A round that can't end with those who are left says so. */
static void run_round(cluster *its)
{
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    int error = cluster_round(its, &result, &diagnostic);
    if (error != TARRY_OK && error != TARRY_ERROR_COVERAGE)
        fail_msg("%s", diagnostic.text);
    if (error == TARRY_OK && result.exact && cluster_error(its) > cluster_tolerance(its))
        fail_msg("round %llu: error %g", (unsigned long long)result.round, cluster_error(its));
}

static void run_case(uint64_t seed, uint32_t number)
{
    random_stream stream = random_stream_make(seed, RANDOM_TEST, number, 1);
    cluster its;
    choose(&its, &stream);
    cluster_begin_server(&its);
    cutter cuts = {.proxy = proxy_begin(its.address)};
    cuts.most_us = 1000 + random_below(&stream, 60000);
    cuts.stream = random_stream_make(seed, RANDOM_TEST, number, 2);
    snprintf(its.connect, sizeof(its.connect), "%s", proxy_address(cuts.proxy));
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        cluster_start(&its, worker);
    assert_int_equal(pthread_create(&cuts.thread, NULL, cut, &cuts), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        cluster_wait(&its, WORKERS);
        cuts.cuts = true;
        run_round(&its);
        if (random_below(&stream, 3) == 0)
            replan(&its, &stream);
        cuts.cuts = false;
    }
    cuts.stop = true;
    pthread_join(cuts.thread, NULL);
    cluster_wait_whole(&its, cuts.proxy);
    cluster_good_round(&its);
    cluster_end(&its);
    proxy_end(cuts.proxy);
}

TEST(test_stress)
{
    uint64_t seed = test_seed("tcp stress", 7);
    for (uint32_t number = 0; number < CASES; number++)
        run_case(seed, number);
}
