/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the network server lets in, and with what word it refuses the others. */
#include <pthread.h>
#include <unistd.h>

#include "coding/coefficients.h"
#include "server_bench.h"
#include "test.h"

/* The word that a newcomer gets for these bytes; 0: none. */
static wire_reason answer_to(const bench *its, const void *bytes, size_t size)
{
    script one;
    script_open(&one, its->address, 1);
    script_send(&one, bytes, size);
    wire_reason reason = script_reason(&one);
    script_close(&one);
    return reason;
}

BENCH(refuses_what_makes_no_sense)
{
    bench_open(its, 1);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    script one;

    /* A version that is to come. */
    wire_hello hello = {.oldest = WIRE_VERSION + 1, .newest = WIRE_VERSION + 3, .instance = {1}};
    assert_int_equal(answer_to(its, frame, wire_encode(WIRE_HELLO, &hello, frame)),
                     WIRE_REFUSED_VERSION);
    const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_int_equal(answer_to(its, text, sizeof(text)), 0);

    /* A huge length. */
    memset(frame, 0xff, sizeof(frame));
    frame[4] = WIRE_MESSAGE;
    assert_int_equal(answer_to(its, frame, WIRE_HEAD_BYTES), 0);

    /* READY before HELLO. */
    assert_int_equal(answer_to(its, frame, wire_encode(WIRE_READY, &(wire_ready){0}, frame)),
                     WIRE_REFUSED_FORMAT);

    /* A field out of its range. */
    hello = (wire_hello){.oldest = WIRE_VERSION, .newest = WIRE_VERSION, .role = WIRE_ROLES};
    assert_int_equal(answer_to(its, frame, wire_encode(WIRE_HELLO, &hello, frame)),
                     WIRE_REFUSED_FORMAT);

    script_open(&one, its->address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, WORKERS);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_RANGE);
    script_close(&one);

    script_open(&one, its->address, 1);
    script_say_hello(&one, WIRE_ROLE_CONTROL, WIRE_ANY_WORKER);
    assert_int_equal(script_reason(&one), WIRE_REFUSED_IDENTITY);
    script_close(&one);

    script_open(&one, its->address, 1); /* another plan */
    script_say_hello(&one, WIRE_ROLE_WORKER, WIRE_ANY_WORKER);
    script_await(&one, WIRE_WELCOME);
    script_send(&one, frame, wire_encode(WIRE_READY, &(wire_ready){.plan = {1}}, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);

    bench_await_count(its, &its->refused, 8);
    assert_non_null(strstr(its->told, "HELLO: role must be 0 to 2, not 3\n"));
    assert_int_equal(its->joined, 0);
}

BENCH(a_worker_of_another_ranking_version_is_refused)
{
    bench_open(its, 1);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {.oldest = WIRE_VERSION,
                        .newest = WIRE_VERSION,
                        .ranking = COEFFICIENTS_VERSION - 1,
                        .worker = 1,
                        .instance = {1}};
    script one;
    assert_int_equal(answer_to(its, frame, wire_encode(WIRE_HELLO, &hello, frame)),
                     WIRE_REFUSED_RANKING);
    bench_await_count(its, &its->refused, 1);
    assert_non_null(
        strstr(its->told, "has version 1 of ranks and coefficients, the server has 2\n"));

    hello.role = WIRE_ROLE_VIEWER; /* which works none out */
    hello.ranking = 0;
    script_open(&one, its->address, 2);
    script_send(&one, frame, wire_encode(WIRE_HELLO, &hello, frame));
    script_await(&one, WIRE_WELCOME);
    script_close(&one);
    assert_int_equal(its->joined, 0);
}

BENCH(refuses_other_data)
{
    bench_init(its);
    its->settings.data[3] = 9;
    bench_begin(its, 1);
    script one;
    script_open(&one, its->address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, 1);
    script_await(&one, WIRE_WELCOME);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_ready ready = {.data = {1}};
    tarry_plan_digest(its->plan, ready.plan);
    script_send(&one, frame, wire_encode(WIRE_READY, &ready, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);
}

static int ship(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    static const uint8_t sample;
    *bytes = &sample;
    *size = origin == 0 ? (size_t)TARRY_TCP_SHIP_MOST + 1 : sizeof(sample);
    return 0;
}

/* Before a byte of it is read: no worker would take it. */
BENCH(refuses_who_asks_for_a_chunk_that_is_too_large)
{
    bench_init(its);
    its->settings.ship = ship;
    bench_begin(its, 1);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_fetch fetch = {.kind = WIRE_BLOB_DATA, .index = 1};
    script one;
    script_open(&one, its->address, 1);
    script_say_hello(&one, WIRE_ROLE_WORKER, 1);
    script_await(&one, WIRE_WELCOME);
    script_send(&one, frame, wire_encode(WIRE_FETCH, &fetch, frame));
    wire_blob blob = {0};
    do {
        script_await(&one, WIRE_BLOB);
        assert_ok(wire_decode(&one.head, one.body, &blob));
    } while (blob.kind != WIRE_BLOB_DATA);
    assert_int_equal(blob.total, 1);
    fetch.index = 0;
    script_send(&one, frame, wire_encode(WIRE_FETCH, &fetch, frame));
    assert_int_equal(script_reason(&one), WIRE_REFUSED_DATA);
    script_close(&one);
}

/* The same id: the first one stays, unless it is the same process or is gone. */
BENCH(seats_one_of_each)
{
    bench_open(its, 1);
    script first, second, again;
    script_open(&first, its->address, 1);
    script_join(&first, 3);
    bench_await_count(its, &its->joined, 1);
    script_open(&second, its->address, 2);
    script_say_hello(&second, WIRE_ROLE_WORKER, 3);
    assert_int_equal(script_reason(&second), WIRE_REFUSED_TAKEN);
    script_close(&second);

    script_open(&again, its->address, 1);
    script_join(&again, 3);
    bench_await_count(its, &its->joined, 2);
    assert_int_equal(script_reason(&first), 0); /* closed */
    script_close(&first);

    script_close(&again);
    bench_await_count(its, &its->left_out, 2);
    script_open(&second, its->address, 2);
    script_join(&second, 3);
    bench_await_count(its, &its->joined, 3);
    script_close(&second);
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
        assert_ok(wire_decode(&one.head, one.body, &refused));
    else
        assert_int_equal(one.head.kind, WIRE_WELCOME);
    script_close(&one);
    return refused.reason;
}

/* But nobody is turned away for good. */
BENCH(one_that_always_comes_back_has_to_wait)
{
    enum { TIMES = 256 };
    bench_open(its, 1);
    uint32_t times = 0;
    while (try_to_enter(its, 3) == 0)
        assert_true(++times < 100 * TIMES);
    assert_true(times >= TIMES);
    bench_await_told(its, wire_reason_text(WIRE_REFUSED_ARRIVALS));
    assert_int_equal(try_to_enter(its, 4), 0);
    usleep(300000);
    assert_int_equal(try_to_enter(its, 3), 0);
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
BENCH(keeps_the_seats_of_those_it_does_not_read)
{
    pthread_t thread;
    bench_init(its);
    its->settings.server.reproducible = true;
    its->settings.server.silence_ns = UINT64_C(12000000000);
    bench_begin(its, 1);
    crew_hire(its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        its->crew.workers[i].slowness = 0.01;
    its->crew.workers[0].pause = 5;
    crew_start(its);
    claimant one = {.its = its, .worker = 3, .wait_us = 4000000};
    assert_int_equal(pthread_create(&thread, NULL, claim_a_seat, &one), 0);
    assert_ok(bench_round(its, 1));
    pthread_join(thread, NULL);
    assert_int_equal(one.reason, WIRE_REFUSED_TAKEN);
    assert_true(its->result.exact);
    assert_true_sum(its, 1);
    assert_int_equal(its->left_out, 0);
}
