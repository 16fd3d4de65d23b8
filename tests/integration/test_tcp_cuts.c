/* SPDX-License-Identifier: Apache-2.0 */
/* A network server and workers in one process, with connections that break. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/random.h"
#include "cluster.h"
#include "proxy.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/session.h"
#include "seed.h"
#include "test.h"

enum {
    ROUNDS = 12,
    LEAST_CUTS = 6,
    CUTS_EACH = 3, /* in a round, at most */
    MOST_AWAY = 2, /* of the three workers that have a chunk */
    MOST_US = 50000,
};

/* Starts the server and `workers` workers with a proxy between. */
static proxy *begin_between(cluster *its, uint32_t workers)
{
    cluster_begin_server(its);
    proxy *between = proxy_begin(its->address);
    snprintf(its->connect, sizeof(its->connect), "%s", proxy_address(between));
    its->workers = workers;
    for (uint32_t worker = 0; worker < workers; worker++)
        cluster_start(its, worker);
    cluster_wait_whole(its, between);
    return between;
}

static void cut_off(cluster *its, proxy *between, uint32_t worker)
{
    pthread_mutex_lock(&its->lock);
    bool cut = proxy_cut_as(between, its->members[worker].seen);
    pthread_mutex_unlock(&its->lock);
    assert_true(cut);
}

/* ---- at random ---- */

typedef struct cutter {
    cluster *its;
    proxy *between;
    random_stream stream;
    _Atomic uint32_t left; /* cuts in this round */
    _Atomic uint32_t cuts; /* so far */
    _Atomic bool stop;
    pthread_t thread;
} cutter;

/* Whose connection is cut is away until the server has it back. */
static uint32_t count_away(const cutter *self)
{
    uint32_t away = 0;
    for (uint32_t worker = 0; worker < self->its->workers; worker++)
        away += !proxy_holds(self->between, self->its->members[worker].seen);
    return away;
}

static void *cut(void *argument)
{
    cutter *self = argument;
    cluster *its = self->its;
    while (!self->stop) {
        usleep(random_below(&self->stream, MOST_US));
        uint32_t worker = random_below(&self->stream, its->workers);
        pthread_mutex_lock(&its->lock);
        if (self->left > 0 && count_away(self) < MOST_AWAY &&
            proxy_cut_as(self->between, its->members[worker].seen)) {
            self->left--;
            self->cuts++;
        }
        pthread_mutex_unlock(&its->lock);
    }
    return NULL;
}

/* Every round is exact, as each chunk has a worker all the time, whichever connections break. */
static void cut_at_random(bool tls, tarry_keep keep)
{
    cluster its;
    cluster_init(&its);
    its.tls = tls;
    its.plan_settings.chunks = 24;
    its.dimension = 4000;
    its.settings.server.stripe_length = 128;
    its.settings.server.keep = keep;
    assert_ok(
        tarry_straggler_create("exp:0.001/chunk", its.workers, 1, NULL, &its.straggler, NULL));
    cutter cuts = {.its = &its, .between = begin_between(&its, its.workers)};
    cuts.stream = random_stream_make(test_seed("tcp cuts", 5), RANDOM_TEST, tls, keep);
    assert_int_equal(pthread_create(&cuts.thread, NULL, cut, &cuts), 0);
    uint32_t rounds = 0;
    for (; rounds < ROUNDS || cuts.cuts < LEAST_CUTS; rounds++) {
        cluster_wait_whole(&its, cuts.between);
        cuts.left = CUTS_EACH;
        cluster_exact_rounds(&its, 1);
        cuts.left = 0;
    }
    cuts.stop = true;
    pthread_join(cuts.thread, NULL);
    cluster_wait_whole(&its, cuts.between);
    cluster_exact_rounds(&its, 2);
    uint32_t connections = proxy_connections(cuts.between);
    printf("%u rounds, %u cuts, %u connections\n", rounds, cuts.cuts, connections);
    assert_true(connections >= its.workers + cuts.cuts);
    cluster_end(&its);
    proxy_end(cuts.between);
}

TEST(test_cuts)
{
    cut_at_random(false, TARRY_KEEP_ALL);
}

TEST(test_cuts_tls)
{
    cut_at_random(true, TARRY_KEEP_ALL);
}

TEST(test_cuts_credited)
{
    cut_at_random(false, TARRY_KEEP_CREDITED);
}

/* ---- what outlives a connection ---- */

/* All chunks but those in progress are finished when a connection breaks; none of them is computed
 * again. */
TEST(test_finished_work_is_kept)
{
    cluster its;
    cluster_init(&its);
    its.plan_settings.chunks = 24;
    its.settings.server.reproducible = true;
    proxy *between = begin_between(&its, its.workers);
    for (uint32_t worker = 0; worker < its.workers; worker++)
        cluster_hold(&its, worker, tarry_plan_load(its.plan, worker) - 1);
    cluster_call call;
    cluster_begin_round(&its, &call);
    for (uint32_t worker = 0; worker < its.workers; worker++)
        cluster_await_held(&its, worker);
    cut_off(&its, between, 3);
    cluster_wait_whole(&its, between);
    cluster_release(&its);
    cluster_end_round(&call);
    assert_ok(call.error);
    assert_true(call.result.exact);
    assert_true(cluster_error(&its) < 1e-5);
    for (uint32_t worker = 0; worker < its.workers; worker++) {
        tarry_tcp_work work = tarry_tcp_worker_work(its.members[worker].worker);
        assert_int_equal(work.computed_again, 0);
        assert_int_equal(work.connections, worker == 3 ? 2 : 1);
    }
    cluster_end(&its);
    proxy_end(between);
}

static uint64_t wait_after_cut(cluster *its, proxy *between)
{
    cluster_member *member = &its->members[0];
    pthread_mutex_lock(&its->lock);
    member->wait_ns = TARRY_NEVER;
    assert_true(proxy_cut_as(between, member->seen));
    while (member->wait_ns == TARRY_NEVER)
        cluster_await_change(its);
    uint64_t wait_ns = member->wait_ns;
    pthread_mutex_unlock(&its->lock);
    return wait_ns;
}

/* Between two rounds, too, a link that was cut at once so often that the waits have grown is found
 * again soon if it is cut once it has lasted for a while. */
TEST(test_flapping)
{
    enum { CUTS = 5 };
    cluster its;
    cluster_init(&its);
    proxy *between = begin_between(&its, 1);
    for (uint32_t count = 0; count < CUTS; count++) {
        wait_after_cut(&its, between);
        cluster_wait_whole(&its, between);
    }
    usleep(BACKOFF_STEADY_NS / 1000 + 100000);
    assert_true(wait_after_cut(&its, between) <= BACKOFF_LEAST_NS);
    cluster_wait_whole(&its, between);
    cluster_end(&its);
    proxy_end(between);
}

/* The round that its executor has not heard the end of is none of the connection that came after.
 */
TEST(test_leave_after_a_cut)
{
    const uint64_t grace_ns = UINT64_C(90000000000);
    cluster its;
    cluster_init(&its);
    proxy *between = begin_between(&its, its.workers);
    cluster_exact_rounds(&its, 2);
    cut_off(&its, between, 0);
    cluster_wait_whole(&its, between);
    uint64_t began = clock_now_ns();
    tarry_tcp_worker_leave(its.members[0].worker, grace_ns);
    cluster_join(&its, 0);
    assert_true(clock_now_ns() - began < grace_ns / 2);
    assert_ok(its.members[0].result);
    cluster_exact_rounds(&its, 2);
    cluster_end(&its);
    proxy_end(between);
}
