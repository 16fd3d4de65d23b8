/* SPDX-License-Identifier: Apache-2.0 */
/* The network server with scripted workers at the other end of its connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "pki/authority.h"
#include "runtime/clock.h"
#include "script.h"
#include "seed.h"

enum { WORKERS = 6, CHUNKS = 6, DIMENSION = 1000, STRIPE = 96, PARAMETERS = 40000 };

/* Longer than any stall of the machine: what takes longer hangs, and nobody is silent before. */
enum { PATIENCE_SECONDS = 60 };
#define PATIENCE_NS (PATIENCE_SECONDS * UINT64_C(1000000000))

/* A server, and what its observer heard. */
typedef struct bench {
    tarry_plan *plan;
    tarry_tcp_server_settings settings;
    tarry_tcp_server *server;
    const char *address;
    uint32_t chunks; /* of the plan in force: each has a gradient by its number */
    float parameters[PARAMETERS];
    float sum[DIMENSION];
    tarry_round_result result;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t joined, refused, left_out, left, revocations;
    uint32_t gone;       /* of those left out */
    char told[64 << 10]; /* why somebody was refused, or a list was not taken: a line each */
    size_t told_size;
} bench;

static void observe(void *user, const tarry_tcp_notice *notice)
{
    bench *its = user;
    pthread_mutex_lock(&its->lock);
    its->joined += notice->type == TARRY_TCP_JOINED;
    its->left += notice->type == TARRY_TCP_LEFT;
    if (notice->type == TARRY_TCP_LEFT_OUT) {
        its->left_out++;
        its->gone += notice->absence == TARRY_ABSENT_GONE;
    }
    its->refused += notice->type == TARRY_TCP_REFUSED;
    its->revocations += notice->type == TARRY_TCP_REVOCATION;
    if (notice->type == TARRY_TCP_REFUSED || notice->type == TARRY_TCP_REVOCATION) {
        size_t left = sizeof(its->told) - its->told_size;
        int length = snprintf(its->told + its->told_size, left, "%s\n", notice->text);
        its->told_size += (size_t)length < left ? (size_t)length : left - 1;
    }
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

static struct timespec soon(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += PATIENCE_SECONDS;
    return limit;
}

static void await_count(bench *its, const uint32_t *count, uint32_t wanted)
{
    struct timespec limit = soon();
    int late = 0;
    pthread_mutex_lock(&its->lock);
    while (*count < wanted && late == 0)
        late = pthread_cond_timedwait(&its->changed, &its->lock, &limit);
    pthread_mutex_unlock(&its->lock);
    assert_int_equal(late, 0);
}

static void await_told(bench *its, const char *words)
{
    struct timespec limit = soon();
    int late = 0;
    pthread_mutex_lock(&its->lock);
    while (strstr(its->told, words) == NULL && late == 0)
        late = pthread_cond_timedwait(&its->changed, &its->lock, &limit);
    pthread_mutex_unlock(&its->lock);
    assert_int_equal(late, 0);
}

static void init(bench *its)
{
    *its = (bench){.chunks = CHUNKS};
    pthread_mutex_init(&its->lock, NULL);
    pthread_cond_init(&its->changed, NULL);
    tarry_tcp_server_settings *settings = &its->settings;
    tarry_tcp_server_settings_init(settings);
    settings->security.insecure = true;
    settings->parameters = PARAMETERS;
    settings->dimension = DIMENSION;
    settings->server.stripe_length = STRIPE;
    settings->server.silence_ns = PATIENCE_NS;
    settings->job = "what to compute";
    settings->job_size = sizeof("what to compute");
    settings->observe = observe;
    settings->observe_user = its;
}

static tarry_plan *make_plan(uint32_t parts)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.replication = 3;
    settings.parts = parts;
    tarry_plan *plan;
    assert_int_equal(tarry_plan_create(&settings, NULL, &plan, NULL), TARRY_OK);
    return plan;
}

static void begin(bench *its, uint32_t parts)
{
    static const char *const listen[] = {"127.0.0.1:0"};
    if (its->settings.listen_count == 0) {
        its->settings.listen = listen;
        its->settings.listen_count = 1;
    }
    its->plan = make_plan(parts);
    tarry_diagnostic diagnostic;
    int error = tarry_tcp_server_create(its->plan, &its->settings, NULL, &its->server, &diagnostic);
    if (error != TARRY_OK)
        fail_msg("%s", diagnostic.text);
    its->address = tarry_tcp_server_address(its->server, 0);
    if (its->settings.checkpoint == NULL) /* from now on it lets others in */
        assert_int_equal(tarry_tcp_server_wait(its->server, 0, 0, NULL), TARRY_OK);
    for (size_t i = 0; i < PARAMETERS; i++)
        its->parameters[i] = (float)i;
}

static void end(bench *its)
{
    tarry_tcp_server_free(its->server, true);
    tarry_plan_free(its->plan);
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
}

/* Scripted workers in threads of their own. */
typedef struct crew {
    script workers[WORKERS];
    pthread_t threads[WORKERS];
    uint32_t count;
} crew;

static void *work(void *argument)
{
    script_work(argument);
    return NULL;
}

static void hire(crew *its, bench *with, uint32_t count)
{
    its->count = count;
    for (uint32_t i = 0; i < count; i++) {
        script_open(&its->workers[i], with->address, (uint8_t)(i + 1));
        script_join(&its->workers[i], i);
    }
    assert_int_equal(tarry_tcp_server_wait(with->server, count, PATIENCE_NS, NULL), TARRY_OK);
}

static void start(crew *its)
{
    for (uint32_t i = 0; i < its->count; i++)
        assert_int_equal(pthread_create(&its->threads[i], NULL, work, &its->workers[i]), 0);
}

/* Once the server is gone. */
static void dismiss(crew *its)
{
    for (uint32_t i = 0; i < its->count; i++) {
        pthread_join(its->threads[i], NULL);
        script_close(&its->workers[i]);
    }
}

static int run_round(bench *its, float parameter)
{
    its->parameters[PARAMETERS - 1] = parameter;
    for (size_t i = 0; i < DIMENSION; i++)
        its->sum[i] = NAN;
    tarry_diagnostic diagnostic;
    int error =
        tarry_tcp_server_round(its->server, its->parameters, its->sum, &its->result, &diagnostic);
    if (error != TARRY_OK)
        print_message("%s\n", diagnostic.text);
    return error;
}

static void assert_true_sum(const bench *its, float parameter)
{
    for (size_t i = 0; i < DIMENSION; i++) {
        double truth = 0;
        for (uint32_t chunk = 0; chunk < its->chunks; chunk++)
            truth += (double)script_gradient(its->result.round, chunk, i, parameter);
        assert_true(fabs((double)its->sum[i] - truth) <= 1e-4 * fabs(truth) + 1e-3);
    }
}

static void sums_rounds_of(uint32_t parts, bool reproducible, uint32_t threads)
{
    bench its;
    crew all;
    init(&its);
    its.settings.server.reproducible = reproducible;
    its.settings.decode_threads = threads;
    begin(&its, parts);
    hire(&all, &its, WORKERS);
    start(&all);
    for (uint32_t round = 0; round < 20; round++) {
        float parameter = (float)round + 0.5f;
        assert_int_equal(run_round(&its, parameter), TARRY_OK);
        assert_int_equal(its.result.round, round);
        assert_true(its.result.exact);
        assert_true_sum(&its, parameter);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_tcp_worker_state state = tarry_tcp_server_worker(its.server, worker);
        assert_true(state.present && state.arrivals == 1);
        assert_true(state.sent > PARAMETERS * sizeof(float) && state.received > 0);
    }
    end(&its);
    dismiss(&all);
    assert_string_equal((const char *)all.workers[0].job, "what to compute");
}

static void sums_rounds(void **state)
{
    (void)state;
    sums_rounds_of(1, false, 1);
    sums_rounds_of(2, false, 3);
}

static void sums_in_the_order_of_workers(void **state)
{
    (void)state;
    sums_rounds_of(1, true, 2);
    sums_rounds_of(2, true, 2);
}

static uint32_t count_gone(bench *its)
{
    pthread_mutex_lock(&its->lock);
    uint32_t gone = its->gone;
    pthread_mutex_unlock(&its->lock);
    return gone;
}

/* A worker is lost in each phase of a round, which goes on without it. */
static void does_without_the_dead(void **state)
{
    (void)state;
    for (script_death death = SCRIPT_DIES_COMPUTING; death <= SCRIPT_DIES_BEHIND_PART; death++) {
        bench its;
        crew all;
        init(&its);
        begin(&its, 1);
        hire(&all, &its, WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++)
            all.workers[i].slowness = 0.004;
        all.workers[2].slowness = 0; /* it has a part in every sum, if the machine lets it */
        all.workers[2].death = death;
        start(&all);
        for (uint32_t round = 0; round < 3 || (count_gone(&its) == 0 && round < 1000); round++) {
            assert_int_equal(run_round(&its, 2), TARRY_OK);
            assert_true(its.result.exact);
            assert_true_sum(&its, 2);
        }
        await_count(&its, &its.gone, 1);
        tarry_tcp_worker_state lost = tarry_tcp_server_worker(its.server, 2);
        assert_true(!lost.present && lost.gone == 1);
        end(&its);
        dismiss(&all);
    }
}

static void says_when_it_cannot_go_on(void **state)
{
    (void)state;
    bench its;
    init(&its);
    begin(&its, 1);
    tarry_diagnostic diagnostic = {{0}};
    assert_int_equal(
        tarry_tcp_server_round(its.server, its.parameters, its.sum, &its.result, &diagnostic),
        TARRY_ERROR_COVERAGE);
    assert_non_null(strstr(diagnostic.text, "all 6 workers are lost"));
    assert_int_equal(tarry_tcp_server_wait(its.server, 1, 1000000, &diagnostic), TARRY_ERROR_STATE);
    tarry_tcp_server_interrupt(its.server);
    assert_int_equal(tarry_tcp_server_wait(its.server, 1, TARRY_NEVER, &diagnostic),
                     TARRY_ERROR_INTERRUPTED);
    end(&its);
}

static void *interrupt_soon(void *argument)
{
    usleep(50000);
    tarry_tcp_server_interrupt(argument);
    return NULL;
}

static void can_be_interrupted(void **state)
{
    (void)state;
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt_soon, its.server);
    assert_int_equal(run_round(&its, 1), TARRY_ERROR_INTERRUPTED); /* nobody computes yet */
    pthread_join(thread, NULL);
    start(&all);
    assert_int_equal(run_round(&its, 3), TARRY_OK);
    assert_true_sum(&its, 3);
    end(&its);
    dismiss(&all);
}

/* ---- who is refused ---- */

typedef struct interrupter {
    tarry_tcp_server *server;
    useconds_t wait_us;
} interrupter;

static void *interrupt_then(void *argument)
{
    const interrupter *its = argument;
    usleep(its->wait_us);
    tarry_tcp_server_interrupt(its->server);
    return NULL;
}

/* In whichever turn of the loop the parts come that wait for each other. */
static void can_be_interrupted_at_any_time(void **state)
{
    (void)state;
    enum { TIMES = 300, LONGEST_US = 3000 };
    bench its;
    crew all;
    init(&its);
    its.settings.server.reproducible = true;
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    start(&all);
    random_stream random = random_stream_make(test_seed("tcp_server", 1), RANDOM_TEST, 0, 0);
    uint32_t interrupted = 0;
    for (uint32_t i = 0; i < TIMES; i++) {
        pthread_t thread;
        interrupter one = {.server = its.server, .wait_us = random_below(&random, LONGEST_US)};
        assert_int_equal(pthread_create(&thread, NULL, interrupt_then, &one), 0);
        int error = run_round(&its, 1);
        pthread_join(thread, NULL);
        if (error == TARRY_OK)
            assert_true_sum(&its, 1);
        else
            assert_int_equal(error, TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
        error = run_round(&its, 2); /* which one that came late is for */
        assert_true(error == TARRY_OK || error == TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
    }
    assert_true(interrupted > 0);
    end(&its);
    dismiss(&all);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    bench its;
    init(&its);
    begin(&its, 1);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    script one;

    script_open(&one, its.address, 1); /* a version that is to come */
    wire_hello hello = {.oldest = 7, .newest = 9, .instance = {1}};
    script_send(&one, frame, wire_hello_encode(&hello, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_VERSION);
    script_close(&one);

    script_open(&one, its.address, 1); /* another protocol */
    const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    script_send(&one, text, sizeof(text));
    assert_int_equal(script_reason(&one), 0);
    script_close(&one);

    script_open(&one, its.address, 1); /* a huge length */
    memset(frame, 0xff, sizeof(frame));
    frame[4] = WIRE_MESSAGE;
    script_send(&one, frame, WIRE_HEAD_BYTES);
    assert_int_equal(script_reason(&one), 0);
    script_close(&one);

    script_open(&one, its.address, 1); /* READY before HELLO */
    script_send(&one, frame, wire_ready_encode(&(wire_ready){0}, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_FORMAT);
    script_close(&one);

    script_open(&one, its.address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, WORKERS);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_RANGE);
    script_close(&one);

    script_open(&one, its.address, 1); /* another plan */
    script_say_hello(&one, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    script_await(&one, WIRE_WELCOME);
    script_send(&one, frame, wire_ready_encode(&(wire_ready){.plan = {1}}, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);

    await_count(&its, &its.refused, 6);
    assert_int_equal(its.joined, 0);
    end(&its);
}

static void refuses_other_data(void **state)
{
    (void)state;
    bench its;
    init(&its);
    its.settings.data[3] = 9;
    begin(&its, 1);
    script one;
    script_open(&one, its.address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, 1);
    script_await(&one, WIRE_WELCOME);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_ready ready = {.data = {1}};
    tarry_plan_digest(its.plan, ready.plan);
    script_send(&one, frame, wire_ready_encode(&ready, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);
    end(&its);
}

static int ship(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    static const uint8_t sample;
    (void)user;
    *bytes = &sample;
    *size = origin == 0 ? (size_t)TARRY_TCP_SHIP_MOST + 1 : sizeof(sample);
    return 0;
}

/* Before a byte of it is read: no worker would take it. */
static void refuses_who_asks_for_a_chunk_that_is_too_large(void **state)
{
    (void)state;
    bench its;
    init(&its);
    its.settings.ship = ship;
    begin(&its, 1);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_fetch fetch = {.kind = WIRE_BLOB_DATA, .index = 1};
    script one;
    script_open(&one, its.address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, 1);
    script_await(&one, WIRE_WELCOME);
    script_send(&one, frame, wire_fetch_encode(&fetch, frame));
    wire_blob blob = {0};
    do {
        script_await(&one, WIRE_BLOB);
        assert_int_equal(wire_blob_decode(&one.head, one.body, &blob), TARRY_OK);
    } while (blob.kind != WIRE_BLOB_DATA);
    assert_int_equal(blob.total, 1);
    fetch.index = 0;
    script_send(&one, frame, wire_fetch_encode(&fetch, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);
    end(&its);
}

/* The same id: the first one stays, unless it is the same process or is gone. */
static void seats_one_of_each(void **state)
{
    (void)state;
    bench its;
    init(&its);
    begin(&its, 1);
    script first, second, again;
    script_open(&first, its.address, 1);
    script_join(&first, 3);
    await_count(&its, &its.joined, 1);
    script_open(&second, its.address, 2);
    script_say_hello(&second, WIRE_ROLE_WORKER, 3);
    assert_int_equal(script_reason(&second), WIRE_REFUSED_TAKEN);
    script_close(&second);

    script_open(&again, its.address, 1);
    script_join(&again, 3);
    await_count(&its, &its.joined, 2);
    assert_int_equal(script_reason(&first), 0); /* closed */
    script_close(&first);

    script_close(&again);
    await_count(&its, &its.left_out, 2);
    script_open(&second, its.address, 2);
    script_join(&second, 3);
    await_count(&its, &its.joined, 3);
    script_close(&second);
    end(&its);
}

/* A worker that sends what nobody can want is refused; the round goes on with the others. */
typedef enum nuisance {
    WRONG_LENGTH,
    FLOOD,
    OLD_ROUND,
    NO_SUCH_STRIPE,
    GARBAGE,
    HEARTBEATS,
    READIES,
    SHAREDS,
    NUISANCES
} nuisance;

/* What it says besides messages, until it is turned away. */
static void repeat(script *its, nuisance kind)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_heartbeat_encode(frame);
    wire_ready ready = {.data = {0}};
    memcpy(ready.plan, its->welcome.plan, WIRE_DIGEST_BYTES);
    if (kind == READIES)
        size = wire_ready_encode(&ready, frame);
    else if (kind == SHAREDS)
        size = wire_shared_encode(&(wire_shared){.kind = WIRE_SHARE_PART}, frame);
    for (uint32_t i = 0; i < 100000 && script_send(its, frame, size); i++) {
    }
}

static void annoy(script *its, nuisance kind)
{
    tarry_message round;
    script_await_message(its, TARRY_MESSAGE_ROUND, &round);
    static const float numbers[STRIPE];
    tarry_message part = {
        .type = TARRY_MESSAGE_PART,
        .round = round.round,
        .epoch = round.epoch,
        .attempt = 1,
        .parts = 1,
    };
    tarry_message report = {
        .type = TARRY_MESSAGE_REPORT, .round = round.round, .epoch = round.epoch, .slot = 99};
    bool on = true;
    switch (kind) {
    case WRONG_LENGTH:
        script_message(its, &part, numbers, STRIPE - 1);
        break;
    case NO_SUCH_STRIPE:
        part.stripe = 1000;
        script_message(its, &part, numbers, STRIPE);
        break;
    case FLOOD:
        for (uint32_t i = 0; i < 100000 && on; i++)
            on = script_message(its, &report, NULL, 0);
        break;
    case OLD_ROUND: /* replayed: dropped, and a flood in the end */
        part.epoch = report.epoch = 77;
        for (uint32_t i = 0; i < 1000000 && on; i++)
            on = script_message(its, &part, numbers, STRIPE);
        break;
    case GARBAGE:
        script_send(its, "\x08\0\0\0\x06\0\0\0garbage!", 16);
        break;
    case HEARTBEATS:
    case READIES:
    case SHAREDS:
        repeat(its, kind);
        break;
    case NUISANCES:
        break;
    }
}

static void *be_a_nuisance(void *argument)
{
    script *its = argument;
    annoy(its, (nuisance)its->stripes_sent);
    script_reason(its);
    return NULL;
}

static void turns_nuisances_away(void **state)
{
    (void)state;
    for (nuisance kind = 0; kind < NUISANCES; kind++) {
        bench its;
        crew all;
        init(&its);
        begin(&its, 1);
        hire(&all, &its, WORKERS);
        all.workers[0].stripes_sent = kind;
        for (uint32_t i = 1; i < WORKERS; i++)
            pthread_create(&all.threads[i], NULL, work, &all.workers[i]);
        pthread_create(&all.threads[0], NULL, be_a_nuisance, &all.workers[0]);
        assert_int_equal(run_round(&its, 4), TARRY_OK);
        assert_true(its.result.exact);
        assert_true_sum(&its, 4);
        await_count(&its, &its.refused, 1);
        if (kind == FLOOD || kind == OLD_ROUND || kind >= HEARTBEATS)
            await_told(&its, wire_reason_text(WIRE_REFUSED_FLOOD));
        assert_int_equal(run_round(&its, 5), TARRY_OK);
        assert_true_sum(&its, 5);
        end(&its);
        dismiss(&all);
    }
}

/* It may wait for a while, and be heard of all at once. */
static void bears_with_the_patient(void **state)
{
    (void)state;
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_heartbeat_encode(frame);
    for (uint32_t i = 0; i < 200; i++) /* those of 25 silences */
        assert_true(script_send(&all.workers[0], frame, size));
    start(&all);
    for (uint32_t round = 0; round < 200; round++) {
        assert_int_equal(run_round(&its, 2), TARRY_OK);
        assert_true(its.result.exact);
    }
    assert_int_equal(its.refused, 0);
    end(&its);
    dismiss(&all);
}

static wire_reason try_to_enter(bench *its, uint32_t worker)
{
    script one;
    script_open(&one, its->address, 9);
    script_say_hello(&one, WIRE_ROLE_WORKER, worker);
    bool on = script_read(&one);
    wire_refused refused = {.reason = 0};
    assert_true(on);
    if (one.head.kind == WIRE_REFUSED)
        assert_int_equal(wire_refused_decode(&one.head, one.body, &refused), TARRY_OK);
    else
        assert_int_equal(one.head.kind, WIRE_WELCOME);
    script_close(&one);
    return refused.reason;
}

/* But nobody is turned away for good. */
static void one_that_always_comes_back_has_to_wait(void **state)
{
    (void)state;
    enum { TIMES = 256 };
    bench its;
    init(&its);
    begin(&its, 1);
    uint32_t times = 0;
    while (try_to_enter(&its, 3) == 0)
        assert_true(++times < 100 * TIMES);
    assert_true(times >= TIMES);
    await_told(&its, wire_reason_text(WIRE_REFUSED_ARRIVALS));
    assert_int_equal(try_to_enter(&its, 4), 0);
    usleep(300000);
    assert_int_equal(try_to_enter(&its, 3), 0);
    end(&its);
}

typedef struct claimant {
    bench *its;
    uint32_t worker, wait_us;
    wire_reason reason;
} claimant;

static void *claim_a_seat(void *argument)
{
    claimant *one = argument;
    usleep(one->wait_us);
    one->reason = try_to_enter(one->its, one->worker);
    return NULL;
}

/* Of those whose parts have to wait for another's nothing is read, and that is not their silence.
 */
static void keeps_the_seats_of_those_it_does_not_read(void **state)
{
    (void)state;
    bench its;
    crew all;
    pthread_t thread;
    init(&its);
    its.settings.server.reproducible = true;
    its.settings.server.silence_ns = UINT64_C(12000000000);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        all.workers[i].slowness = 0.01;
    all.workers[0].pause = 5;
    start(&all);
    claimant one = {.its = &its, .worker = 3, .wait_us = 4000000};
    assert_int_equal(pthread_create(&thread, NULL, claim_a_seat, &one), 0);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    pthread_join(thread, NULL);
    assert_int_equal(one.reason, WIRE_REFUSED_TAKEN);
    assert_true(its.result.exact);
    assert_true_sum(&its, 1);
    assert_int_equal(its.left_out, 0);
    end(&its);
    dismiss(&all);
}

/* Whoever says nothing makes room for the next: the oldest first. */
static void lets_members_in_through_a_crowd(void **state)
{
    (void)state;
    enum { ROOM = 8, CROWD = 50 };
    bench its;
    crew all;
    script crowd[CROWD];
    init(&its);
    its.settings.most_newcomers = ROOM;
    begin(&its, 1);
    for (uint32_t i = 0; i < CROWD; i++)
        script_open(&crowd[i], its.address, 77);
    for (uint32_t i = 0; i < CROWD - ROOM; i++)
        assert_int_equal(script_reason(&crowd[i]), 0); /* closed */
    script_say_hello(&crowd[CROWD - 1], WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&crowd[CROWD - 1], WIRE_WELCOME);
    await_told(&its, "made room for others");
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    assert_true_sum(&its, 1);
    end(&its);
    dismiss(&all);
    for (uint32_t i = 0; i < CROWD; i++)
        script_close(&crowd[i]);
}

/* Nobody can make the server hold much, or write much, before it is known. */
static void believes_strangers_little(void **state)
{
    (void)state;
    enum { CROWD = 200 };
    bench its;
    init(&its);
    begin(&its, 1);
    script one, crowd[CROWD];
    script_open(&one, its.address, 1);
    uint8_t head[WIRE_HEAD_BYTES];
    wire_message_head(WIRE_SMALL_BYTES + 1, 0, head);
    script_send(&one, head, sizeof(head));
    assert_int_equal(script_reason(&one), 0); /* without waiting for the rest */
    script_close(&one);
    for (uint32_t i = 0; i < CROWD; i++) { /* all at once */
        script_open(&crowd[i], its.address, 1);
        script_say_hello(&crowd[i], WIRE_ROLE_WORKER, WORKERS);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        wire_reason reason = script_reason(&crowd[i]);
        assert_true(reason == WIRE_REFUSED_RANGE || reason == 0);
        script_close(&crowd[i]);
    }
    await_told(&its, "more were turned away");
    end(&its);
    assert_true(its.refused < CROWD);
}

/* A crowd that makes no sense uses up all words but those for one that has said who it is. */
static void answers_those_who_have_said_who_they_are(void **state)
{
    (void)state;
    enum { CROWD = 200 };
    static const uint8_t garbage[WIRE_HEAD_BYTES] = {0xff, 0xff, 0xff, 0xff,
                                                     0xff, 0xff, 0xff, 0xff};
    bench its;
    init(&its);
    begin(&its, 1);
    script one, crowd[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) {
        script_open(&crowd[i], its.address, 1);
        script_send(&crowd[i], garbage, sizeof(garbage));
    }
    script_open(&one, its.address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, WORKERS);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_RANGE);
    script_close(&one);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_int_equal(script_reason(&crowd[i]), 0);
        script_close(&crowd[i]);
    }
    await_told(&its, "more were turned away");
    end(&its);
}

/* ---- the rest ---- */

/* `listed`: workers of which the state says more than how many are in each state. */
static void show_how_it_stands(uint32_t listed)
{
    bench its;
    crew all;
    init(&its);
    if (listed < WORKERS) {
        wire_status most = {.workers = listed};
        memset(most.note, 'x', WIRE_STATUS_NOTE_BYTES);
        its.settings.most_peer_bytes = 2 * wire_status_size(&most);
    }
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    tarry_tcp_server_note(its.server, 5, 12, "loss 0.5");
    assert_int_equal(run_round(&its, 2), TARRY_OK);
    script viewer;
    script_open(&viewer, its.address, 99);
    script_say_hello(&viewer, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    script_await(&viewer, WIRE_STATUS);
    wire_status status;
    assert_int_equal(wire_status_decode(&viewer.head, viewer.body, &status), TARRY_OK);
    assert_string_equal(status.note, "loss 0.5");
    assert_int_equal(status.rounds, 12);
    assert_int_equal(status.done, 6);
    assert_int_equal(status.exact, 2);
    assert_false(status.running);
    assert_false(status.waiting);
    assert_int_equal(status.workers, listed);
    assert_int_equal(status.others[WIRE_WORKER_RESTING], WORKERS - listed);
    assert_int_equal(wire_status_all_workers(&status), WORKERS);
    for (uint32_t worker = 0; worker < listed; worker++) {
        wire_worker_status one;
        assert_int_equal(wire_status_worker(&viewer.head, viewer.body, worker, &one), TARRY_OK);
        assert_int_equal(one.state, WIRE_WORKER_RESTING);
        assert_int_equal(one.load, 3);
    }
    script_close(&viewer);
    end(&its);
    dismiss(&all);
}

static void shows_viewers_how_it_stands(void **state)
{
    (void)state;
    show_how_it_stands(WORKERS);
}

static void lists_as_many_workers_as_fit(void **state)
{
    (void)state;
    show_how_it_stands(WORKERS - 2);
}

/* One that reads nothing is sent no more than fits: what waits for it stays where it lies. */
static void waits_for_no_slow_reader(void **state)
{
    (void)state;
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        pthread_create(&all.threads[i], NULL, work, &all.workers[i]);
    for (uint32_t round = 0; round < 50; round++) {
        assert_int_equal(run_round(&its, 6), TARRY_OK);
        assert_true_sum(&its, 6);
    }
    tarry_tcp_worker_state slow = tarry_tcp_server_worker(its.server, 0);
    assert_true(slow.sent < 50 * PARAMETERS * sizeof(float));
    end(&its);
    all.threads[0] = all.threads[1];
    for (uint32_t i = 1; i < WORKERS; i++)
        pthread_join(all.threads[i], NULL);
    for (uint32_t i = 0; i < WORKERS; i++)
        script_close(&all.workers[i]);
}

static void goes_on_with_another_plan(void **state)
{
    (void)state;
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    tarry_plan *next;
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    const double cost[CHUNKS] = {1, 1, 1, 9, 1, 1};
    wanted.cost = cost;
    wanted.heaviest = 2;
    tarry_plan_changes changes;
    assert_int_equal(tarry_plan_evolve(its.plan, &wanted, NULL, &next, &changes, NULL), TARRY_OK);
    assert_true(changes.split > 0);
    its.chunks = tarry_plan_chunks(next);
    assert_int_equal(tarry_tcp_server_replan(its.server, next, NULL), TARRY_OK);
    for (uint32_t round = 0; round < 5; round++) {
        assert_int_equal(run_round(&its, 8), TARRY_OK);
        assert_true_sum(&its, 8);
    }
    assert_true(tarry_tcp_server_worker(its.server, 0).present);
    end(&its);
    dismiss(&all);
    tarry_plan_free(next);
}

/* One that takes its time to turn to another plan: of a round that is over by then it hears
 * nothing, as the parameters are the caller's again. */
static void sends_nothing_of_a_round_before(void **state)
{
    (void)state;
    enum { READY_FRAME = WIRE_HEAD_BYTES + 2 * WIRE_DIGEST_BYTES };
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        pthread_create(&all.threads[i], NULL, work, &all.workers[i]);
    tarry_plan *next = make_plan(1);
    assert_int_equal(tarry_tcp_server_replan(its.server, next, NULL), TARRY_OK);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    assert_true_sum(&its, 1);
    tarry_tcp_worker_state before = tarry_tcp_server_worker(its.server, 0), now;
    pthread_create(&all.threads[0], NULL, work, &all.workers[0]);
    do {
        usleep(1000);
        now = tarry_tcp_server_worker(its.server, 0);
    } while (now.received < before.received + READY_FRAME);
    usleep(50000);
    now = tarry_tcp_server_worker(its.server, 0);
    assert_true(now.sent - before.sent < PARAMETERS * sizeof(float));
    assert_int_equal(run_round(&its, 2), TARRY_OK);
    assert_true_sum(&its, 2);
    assert_true(tarry_tcp_server_worker(its.server, 0).present);
    end(&its);
    dismiss(&all);
    tarry_plan_free(next);
}

static int look(void *user, const tarry_server *machine)
{
    *(size_t *)user = tarry_server_checkpoint_size(machine);
    return 7;
}

/* A server that was restored lets nobody in before its own checkpoint is stored. */
static void goes_on_from_a_checkpoint(void **state)
{
    (void)state;
    bench its;
    crew all;
    init(&its);
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    size_t size = 0;
    assert_int_equal(tarry_tcp_server_visit(its.server, look, &size), 7);
    uint8_t *bytes = malloc(size);
    assert_int_equal(tarry_tcp_server_checkpoint(its.server, bytes), TARRY_OK);
    uint8_t job[TARRY_TCP_ID_SIZE];
    tarry_tcp_server_job_id(its.server, job);
    end(&its);
    dismiss(&all);

    init(&its);
    memcpy(its.settings.job_id, job, sizeof(job));
    its.settings.checkpoint = bytes;
    its.settings.checkpoint_size = size;
    begin(&its, 1);
    tarry_diagnostic diagnostic;
    assert_int_equal(
        tarry_tcp_server_round(its.server, its.parameters, its.sum, &its.result, &diagnostic),
        TARRY_ERROR_STATE);
    assert_int_equal(tarry_tcp_server_checkpoint(its.server, bytes), TARRY_OK);
    assert_int_equal(tarry_tcp_server_wait(its.server, 0, 0, &diagnostic), TARRY_ERROR_STATE);
    tarry_tcp_server_stored(its.server, bytes);
    assert_int_equal(tarry_tcp_server_wait(its.server, 0, 0, NULL), TARRY_OK);
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 2), TARRY_OK);
    assert_int_equal(its.result.round, 1);
    assert_true_sum(&its, 2);
    end(&its);
    dismiss(&all);
    free(bytes);
}

/* What the caller does while it waits. */
typedef struct attendant {
    bench *bench;
    uint32_t times;
    uint8_t bytes[4096];
} attendant;

static void attend(void *user)
{
    attendant *its = user;
    its->times++;
    assert_int_equal(tarry_tcp_server_checkpoint(its->bench->server, its->bytes), TARRY_OK);
    tarry_tcp_server_stored(its->bench->server, its->bytes);
}

static void its_caller_can_store_a_checkpoint_in_a_round(void **state)
{
    (void)state;
    bench its;
    crew all;
    attendant keeper = {.bench = &its};
    init(&its);
    its.settings.attend = attend;
    its.settings.attend_user = &keeper;
    begin(&its, 1);
    hire(&all, &its, WORKERS);
    keeper.times = 0;
    uint64_t start_ns = clock_now_ns();
    assert_int_equal(tarry_tcp_server_wait(its.server, WORKERS + 1, UINT64_C(1500000000), NULL),
                     TARRY_ERROR_STATE);
    uint64_t seconds = (clock_now_ns() - start_ns) / UINT64_C(1000000000);
    assert_in_range(keeper.times, 1, 1 + seconds); /* the first one may have been due */
    size_t size = 0;
    assert_int_equal(tarry_tcp_server_visit(its.server, look, &size), 7);
    assert_true(size <= sizeof(keeper.bytes));
    for (uint32_t i = 0; i < WORKERS; i++)
        all.workers[i].slowness = 1.2;
    start(&all);
    uint32_t before = keeper.times;
    for (uint32_t round = 0; round < 20 && keeper.times == before; round++) {
        assert_int_equal(run_round(&its, 1), TARRY_OK);
        assert_true_sum(&its, 1);
    }
    assert_true(keeper.times > before);
    end(&its);
    dismiss(&all);
}

static void plain_text_stays_on_this_machine(void **state)
{
    (void)state;
    bench its;
    init(&its);
    static const char *const anywhere[] = {"0.0.0.0:0"};
    its.settings.listen = anywhere;
    its.settings.listen_count = 1;
    its.plan = make_plan(1);
    tarry_diagnostic diagnostic = {{0}};
    assert_int_equal(
        tarry_tcp_server_create(its.plan, &its.settings, NULL, &its.server, &diagnostic),
        TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(diagnostic.text, "plain text"));
    its.settings.security.force = true;
    assert_int_equal(
        tarry_tcp_server_create(its.plan, &its.settings, NULL, &its.server, &diagnostic), TARRY_OK);
    end(&its);
}

/* From here on no IPv6, as with a kernel that has none. False: that can't be arranged. */
static bool lose_ipv6(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void try_to_listen(const char *text, int wanted)
{
    bench its;
    init(&its);
    its.settings.security.force = true;
    its.settings.listen = &text;
    its.settings.listen_count = 1;
    its.plan = make_plan(1);
    tarry_diagnostic why = {{0}};
    int error = tarry_tcp_server_create(its.plan, &its.settings, NULL, &its.server, &why);
    if (error != wanted)
        print_error("%s: %d, %s\n", text, error, why.text);
    _exit(error == wanted ? 0 : 1);
}

static void listens_where_it_can(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int wanted;
    } tries[] = {{":0", TARRY_OK}, {"[::]:0", TARRY_ERROR_SYSTEM}};
    for (size_t i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (!lose_ipv6())
                _exit(77);
            try_to_listen(tries[i].text, tries[i].wanted);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void listens_on_a_unix_socket(void **state)
{
    (void)state;
    bench its;
    char folder[] = "/tmp/tarry-test-XXXXXX", text[64];
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof(text), "unix:%s/socket", folder);
    const char *const listen[] = {text};
    init(&its);
    its.settings.security.insecure = false; /* whoever connects is known to be a member */
    its.settings.listen = listen;
    its.settings.listen_count = 1;
    begin(&its, 1);
    assert_string_equal(its.address, text);
    crew all;
    hire(&all, &its, WORKERS);
    start(&all);
    assert_int_equal(run_round(&its, 1), TARRY_OK);
    assert_true_sum(&its, 1);
    end(&its);
    dismiss(&all);
    assert_int_not_equal(access(text + strlen("unix:"), F_OK), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- credentials ---- */

typedef struct cluster {
    char folder[32];
    char member[4][64];
} cluster;

static const char *member_of(cluster *its, uint32_t index, const char *name)
{
    char path[sizeof(its->member[index])];
    snprintf(path, sizeof(path), "%s/%s", its->folder, name);
    return memcpy(its->member[index], path, sizeof(path));
}

static void found(cluster *its)
{
    snprintf(its->folder, sizeof(its->folder), "/tmp/tarry-test-XXXXXX");
    assert_non_null(mkdtemp(its->folder));
    assert_int_equal(
        authority_init(its->folder, WORKERS, (authority_hosts){0}, (int64_t)time(NULL), NULL, NULL),
        TARRY_OK);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void dissolve(cluster *its)
{
    assert_int_equal(nftw(its->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void lets_members_in_as_who_they_are(void **state)
{
    (void)state;
    bench its;
    cluster members;
    found(&members);
    init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = member_of(&members, 0, "server");
    begin(&its, 1);
    const char *third = member_of(&members, 1, "worker-2"), *any = member_of(&members, 2, "worker");
    script one;

    script_open(&one, its.address, 1); /* without TLS */
    script_say_hello(&one, WIRE_ROLE_WORKER, 0);
    assert_int_equal(script_reason(&one), 0);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, third)); /* as another */
    script_say_hello(&one, WIRE_ROLE_WORKER, 4);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, third)); /* in another role */
    script_say_hello(&one, WIRE_ROLE_VIEWER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    assert_true(script_open_secure(&one, its.address, 1, member_of(&members, 3, "viewer")));
    script_say_hello(&one, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);
    await_count(&its, &its.refused, 4);

    crew all = {.count = WORKERS};
    for (uint32_t i = 0; i < WORKERS; i++) {
        const char *as = i == 2 ? third : any;
        assert_true(script_open_secure(&all.workers[i], its.address, (uint8_t)(i + 1), as));
        script_join(&all.workers[i], WIRE_ANY_WORKER);
    }
    assert_int_equal(tarry_tcp_server_wait(its.server, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
    start(&all);
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(run_round(&its, 2), TARRY_OK);
        assert_true_sum(&its, 2);
    }
    end(&its);
    dismiss(&all);
    dissolve(&members);
}

static void enter(script *its, const bench *with, uint8_t instance, const char *as)
{
    assert_true(script_open_secure(its, with->address, instance, as));
    script_join(its, WIRE_ANY_WORKER);
}

/* Members that may have any id are there first, and make room for the one whose id it is. */
static void keeps_places_for_those_they_belong_to(void **state)
{
    (void)state;
    bench its;
    cluster members;
    found(&members);
    init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = member_of(&members, 0, "server");
    its.settings.server.silence_ns = UINT64_C(8000000000);
    begin(&its, 1);
    const char *third = member_of(&members, 1, "worker-2"), *any = member_of(&members, 2, "worker");
    script strangers[WORKERS], owner, other;
    for (uint32_t i = 0; i < WORKERS; i++) {
        enter(&strangers[i], &its, (uint8_t)(i + 1), any);
        assert_int_equal(strangers[i].welcome.worker, i);
    }
    enter(&owner, &its, 7, third);
    assert_int_equal(owner.welcome.worker, 2);
    assert_int_equal(script_reason(&strangers[2]), WIRE_REFUSED_TAKEN);
    script_close(&strangers[2]);
    await_count(&its, &its.joined, WORKERS + 1);

    /* It is not given to another, for all its silence: a quarter of what others may keep. */
    usleep(2100000);
    assert_true(script_open_secure(&other, its.address, 3, any));
    script_say_hello(&other, WIRE_ROLE_WORKER, 2);
    assert_int_equal(script_reason(&other), WIRE_REFUSED_TAKEN);
    script_close(&other);
    end(&its);
    for (uint32_t i = 0; i < WORKERS; i++)
        if (i != 2)
            script_close(&strangers[i]);
    script_close(&owner);
    dissolve(&members);
}

/* Also one that is connected already. */
static void turns_the_revoked_away(void **state)
{
    (void)state;
    bench its;
    cluster members;
    found(&members);
    init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = member_of(&members, 0, "server");
    begin(&its, 1);
    const char *third = member_of(&members, 1, "worker-2");
    script one, again;
    assert_true(script_open_secure(&one, its.address, 1, third));
    script_join(&one, WIRE_ANY_WORKER);
    await_count(&its, &its.joined, 1);
    const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = 2};
    assert_int_equal(authority_revoke(members.folder, who, (int64_t)time(NULL), NULL), TARRY_OK);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_REVOKED);
    await_count(&its, &its.left_out, 1);
    if (script_open_secure(&again, its.address, 1, third)) /* in TLS 1.3 it hears of it later */
        assert_false(script_read(&again));
    await_count(&its, &its.refused, 2);
    await_told(&its, "revoked");
    script_close(&again);
    script_close(&one);
    end(&its);
    dissolve(&members);
}

/* A list that is damaged is not taken, which is told once; the next good one is. */
static void tells_of_a_list_that_is_not_taken(void **state)
{
    (void)state;
    bench its;
    cluster members;
    found(&members);
    init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = member_of(&members, 0, "server");
    begin(&its, 1);
    FILE *list = fopen(member_of(&members, 1, "server/revoked.pem"), "w");
    assert_non_null(list);
    assert_true(fputs("junk\n", list) >= 0);
    assert_int_equal(fclose(list), 0);
    await_count(&its, &its.revocations, 1);
    await_told(&its, "no revocation list in PEM");
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = 2};
    assert_int_equal(authority_revoke(members.folder, who, (int64_t)time(NULL), NULL), TARRY_OK);
    await_count(&its, &its.revocations, 2);
    await_told(&its, "in force");
    end(&its);
    dissolve(&members);
}

/* And one that proved who it is while it was a member, and said nothing since. */
static void turns_the_revoked_away_before_they_speak(void **state)
{
    (void)state;
    bench its;
    cluster members;
    found(&members);
    init(&its);
    its.settings.security.insecure = false;
    its.settings.security.credentials = member_of(&members, 0, "server");
    begin(&its, 1);
    script quiet, joined;
    assert_true(script_open_secure(&quiet, its.address, 1, member_of(&members, 1, "worker-2")));
    assert_true(script_open_secure(&joined, its.address, 2, member_of(&members, 2, "worker-3")));
    script_join(&joined, WIRE_ANY_WORKER);
    await_count(&its, &its.joined, 1);
    for (uint32_t worker = 2; worker <= 3; worker++) {
        const credential_identity who = {.role = CREDENTIAL_WORKER, .worker = worker};
        assert_int_equal(authority_revoke(members.folder, who, (int64_t)time(NULL), NULL),
                         TARRY_OK);
    }
    assert_int_equal(script_reason(&joined), WIRE_REFUSED_REVOKED); /* the list is in force */
    script_say_hello(&quiet, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&quiet), WIRE_REFUSED_REVOKED);
    script_close(&joined);
    script_close(&quiet);
    end(&its);
    dissolve(&members);
}

/* In a process of its own, which has descriptors enough. */
static pid_t flood(const char *address, uint32_t connections)
{
    uint16_t port = (uint16_t)atoi(strrchr(address, ':') + 1);
    pid_t process = fork();
    if (process != 0)
        return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    const struct sockaddr_in where = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    for (uint32_t i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&where, sizeof(where)) != 0)
            _exit(1);
    }
    sleep(60);
    _exit(0);
}

/* However many connect, the process can still open files. */
static void leaves_descriptors_to_others(void **state)
{
    (void)state;
    bench its;
    init(&its);
    begin(&its, 1);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    pid_t crowd = flood(its.address, 200);
    assert_true(crowd > 0);
    await_told(&its, "made room for others");
    int files[16];
    for (size_t i = 0; i < 16; i++)
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < 16; i++) {
        assert_true(files[i] >= 0);
        close(files[i]);
    }
    kill(crowd, SIGKILL);
    assert_int_equal(waitpid(crowd, NULL, 0), crowd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    script late;
    script_open(&late, its.address, 1);
    script_join(&late, 0);
    await_count(&its, &its.joined, 1);
    end(&its);
    script_close(&late);
}

static int make_server(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    tarry_tcp_server *server;
    int error = tarry_tcp_server_create(its->plan, &its->settings, allocator, &server, NULL);
    if (error == TARRY_OK)
        tarry_tcp_server_free(server, true);
    return error;
}

static void reports_every_failed_allocation(void **state)
{
    (void)state;
    bench its;
    init(&its);
    static const char *const listen[] = {"127.0.0.1:0"};
    its.settings.listen = listen;
    its.settings.listen_count = 1;
    its.settings.decode_threads = 2;
    its.plan = make_plan(1);
    assert_true(fail_each_allocation(make_server, &its) > 10);
    tarry_plan_free(its.plan);
}

/* The digest takes memory of OpenSSL's. */
static bool encoding_fails;

int __real_plan_encode(const tarry_plan *plan, uint8_t *bytes);
int __wrap_plan_encode(const tarry_plan *plan, uint8_t *bytes);

int __wrap_plan_encode(const tarry_plan *plan, uint8_t *bytes)
{
    return encoding_fails ? TARRY_ERROR_NO_MEMORY : __real_plan_encode(plan, bytes);
}

static void survives_a_plan_that_can_not_be_encoded(void **state)
{
    (void)state;
    bench its;
    init(&its);
    begin(&its, 1);
    tarry_plan *next = make_plan(1);
    encoding_fails = true;
    assert_int_equal(tarry_tcp_server_replan(its.server, next, NULL), TARRY_ERROR_NO_MEMORY);
    its.settings.listen = (const char *const[]){"127.0.0.1:0"};
    its.settings.listen_count = 1;
    assert_int_equal(make_server(&its, NULL), TARRY_ERROR_NO_MEMORY);
    encoding_fails = false;
    assert_int_equal(tarry_tcp_server_replan(its.server, next, NULL), TARRY_OK);
    end(&its);
    tarry_plan_free(next);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL's own writes to connections that the server closed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_rounds),
        cmocka_unit_test(sums_in_the_order_of_workers),
        cmocka_unit_test(does_without_the_dead),
        cmocka_unit_test(says_when_it_cannot_go_on),
        cmocka_unit_test(can_be_interrupted),
        cmocka_unit_test(can_be_interrupted_at_any_time),
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(refuses_other_data),
        cmocka_unit_test(refuses_who_asks_for_a_chunk_that_is_too_large),
        cmocka_unit_test(seats_one_of_each),
        cmocka_unit_test(turns_nuisances_away),
        cmocka_unit_test(bears_with_the_patient),
        cmocka_unit_test(one_that_always_comes_back_has_to_wait),
        cmocka_unit_test(keeps_the_seats_of_those_it_does_not_read),
        cmocka_unit_test(lets_members_in_through_a_crowd),
        cmocka_unit_test(believes_strangers_little),
        cmocka_unit_test(answers_those_who_have_said_who_they_are),
        cmocka_unit_test(shows_viewers_how_it_stands),
        cmocka_unit_test(lists_as_many_workers_as_fit),
        cmocka_unit_test(waits_for_no_slow_reader),
        cmocka_unit_test(goes_on_with_another_plan),
        cmocka_unit_test(sends_nothing_of_a_round_before),
        cmocka_unit_test(goes_on_from_a_checkpoint),
        cmocka_unit_test(its_caller_can_store_a_checkpoint_in_a_round),
        cmocka_unit_test(plain_text_stays_on_this_machine),
        cmocka_unit_test(listens_where_it_can),
        cmocka_unit_test(listens_on_a_unix_socket),
        cmocka_unit_test(lets_members_in_as_who_they_are),
        cmocka_unit_test(keeps_places_for_those_they_belong_to),
        cmocka_unit_test(turns_the_revoked_away),
        cmocka_unit_test(tells_of_a_list_that_is_not_taken),
        cmocka_unit_test(turns_the_revoked_away_before_they_speak),
        cmocka_unit_test(leaves_descriptors_to_others),
        cmocka_unit_test(reports_every_failed_allocation),
        cmocka_unit_test(survives_a_plan_that_can_not_be_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
