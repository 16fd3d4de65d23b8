/* SPDX-License-Identifier: Apache-2.0 */
/* Relays that run out of memory, or are told to end, between a server and its workers: whatever
 * becomes of them, sums are exact, and nothing is left over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/tcp/relay/relay.h"
#include "server_bench.h"

enum { HALF = WORKERS / 2, PATH = 100 };

#define NEVER SIZE_MAX

/* One allocation fails, once it is armed. The relay's thread's, but for what arms it. */
typedef struct scarce {
    tarry_allocator allocator;
    _Atomic size_t until; /* so many allocations go well before it; NEVER: all do */
    _Atomic bool failed;
    _Atomic size_t live;
} scarce;

static void *take(void *user, size_t count, size_t size)
{
    scarce *its = user;
    size_t until = atomic_load(&its->until);
    if (until != NEVER) {
        atomic_store(&its->until, until == 0 ? NEVER : until - 1);
        if (until == 0) {
            atomic_store(&its->failed, true);
            return NULL;
        }
    }
    void *memory = calloc(count, size);
    atomic_fetch_add(&its->live, memory != NULL);
    return memory;
}

static void give_back(void *user, void *memory)
{
    scarce *its = user;
    atomic_fetch_sub(&its->live, memory != NULL);
    free(memory);
}

/* Workers of which the first half comes by the relay, and goes on to the server without it. */
typedef struct roamer {
    script worker;
    uint32_t id;
    const char *first, *then;
    struct party *of;
    pthread_t thread;
} roamer;

typedef struct party {
    bench bench;
    scarce memory;
    char folder[PATH], place[PATH];
    tcp_relay *relay;
    pthread_t thread;
    roamer workers[WORKERS];
    _Atomic bool connected;
    pthread_mutex_t coming; /* held by who comes back, so that the server is there until it has */
    bool over;              /* the run is: nobody comes back */
} party;

static void join(roamer *its, const char *parent)
{
    script_open(&its->worker, parent, (uint8_t)(its->id + 1));
    its->worker.slowness = 0.001;
    script_join(&its->worker, its->id);
}

static bool come_back(roamer *its)
{
    party *all = its->of;
    pthread_mutex_lock(&all->coming);
    bool on = !all->over;
    if (on) {
        script_close(&its->worker);
        join(its, its->then);
    }
    pthread_mutex_unlock(&all->coming);
    return on;
}

static void *roam(void *argument)
{
    roamer *its = argument;
    do
        script_work(&its->worker);
    while (its->then != NULL && come_back(its));
    return NULL;
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    party *its = user;
    if (notice->type == TARRY_TCP_CONNECTED)
        atomic_store(&its->connected, true);
}

/* How it ends is its own affair here: it may have no memory for that. */
static void *run_relay(void *argument)
{
    party *its = argument;
    tarry_diagnostic why;
    tcp_relay_run(its->relay, &why);
    return NULL;
}

static void begin(party *its, uint32_t parts)
{
    *its = (party){
        .memory = {.allocator = {.user = &its->memory, .allocate = take, .release = give_back}}};
    atomic_init(&its->memory.until, NEVER);
    pthread_mutex_init(&its->coming, NULL);
    snprintf(its->folder, sizeof(its->folder), "/tmp/tarry-relay-XXXXXX");
    assert_non_null(mkdtemp(its->folder));
    snprintf(its->place, sizeof(its->place), "unix:%.40s/relay", its->folder);
    bench_init(&its->bench);
    its->bench.settings.relay_grace_ns = PATIENCE_NS;
    bench_begin(&its->bench, parts);
    const char *listen = its->place;
    const tcp_relay_settings settings = {
        .connect = its->bench.address,
        .listen = &listen,
        .listen_count = 1,
        .security = {.insecure = true},
        .patience_ns = PATIENCE_NS,
        .observe = observe,
        .observe_user = its,
    };
    assert_int_equal(tcp_relay_create(&settings, &its->memory.allocator, &its->relay, NULL),
                     TARRY_OK);
    assert_int_equal(pthread_create(&its->thread, NULL, run_relay, its), 0);
    while (!atomic_load(&its->connected))
        usleep(1000);
    for (uint32_t i = 0; i < WORKERS; i++) {
        bool far = i < HALF;
        roamer *worker = &its->workers[i];
        *worker = (roamer){.id = i, .of = its};
        worker->first = far ? its->place : its->bench.address;
        worker->then = far ? its->bench.address : NULL;
        join(worker, worker->first);
    }
    assert_int_equal(tarry_runtime_wait(its->bench.server, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&its->workers[i].thread, NULL, roam, &its->workers[i]), 0);
}

static void end(party *its)
{
    pthread_mutex_lock(&its->coming);
    its->over = true;
    pthread_mutex_unlock(&its->coming);
    tcp_relay_leave(its->relay);
    bench_end(&its->bench);
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        pthread_join(its->workers[i].thread, NULL);
        script_close(&its->workers[i].worker);
    }
    tcp_relay_free(its->relay);
    assert_int_equal(atomic_load(&its->memory.live), 0);
    unlink(its->place + strlen("unix:"));
    assert_int_equal(rmdir(its->folder), 0);
    pthread_mutex_destroy(&its->coming);
}

static void run_rounds(party *its, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        float parameter = (float)round + 0.5f;
        assert_int_equal(bench_round(&its->bench, parameter), TARRY_OK);
        assert_true(its->bench.result.exact);
        assert_true_sum(&its->bench, parameter);
    }
    assert_int_equal(its->bench.gone, 0);
}

/* Each allocation of its first rounds in turn, up to one that does not come. Some come in any case,
 * but the other workers may have done all of a round before the relay had a turn. */
static void each_allocation_of_a_relay_may_fail(void **state)
{
    (void)state;
    enum { CERTAIN = 5, ROUNDS_MOST = 1000 };
    bool failed = true;
    size_t at = 0;
    for (; failed; at++) {
        party its;
        begin(&its, 1 + at % 2);
        atomic_store(&its.memory.until, at);
        run_rounds(&its, 3);
        for (uint32_t i = 0; at < CERTAIN && i < ROUNDS_MOST && !atomic_load(&its.memory.failed);
             i++)
            run_rounds(&its, 1);
        failed = atomic_load(&its.memory.failed);
        atomic_store(&its.memory.until, NEVER);
        end(&its);
    }
    assert_in_range(at, CERTAIN, 200); /* parameters, parts, sums, groups */
}

typedef struct ender {
    tcp_relay *relay;
    useconds_t after;
} ender;

static void *end_later(void *argument)
{
    const ender *its = argument;
    usleep(its->after);
    tcp_relay_leave(its->relay);
    return NULL;
}

/* In whatever phase of a round that is: its workers go on at the server, and nobody is lost. */
static void a_relay_may_be_told_to_end_at_any_time(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        party its;
        begin(&its, 1 + i % 2);
        run_rounds(&its, 1);
        ender how = {.relay = its.relay, .after = 2000 * i};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, end_later, &how), 0);
        run_rounds(&its, 5);
        pthread_join(thread, NULL);
        bench_await_count(&its.bench, &its.bench.joined, WORKERS + HALF);
        run_rounds(&its, 1);
        end(&its);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_of_a_relay_may_fail),
        cmocka_unit_test(a_relay_may_be_told_to_end_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
