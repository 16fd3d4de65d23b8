/* SPDX-License-Identifier: Apache-2.0 */
/* The network server with scripted workers at the other end of its connections: its rounds. */
#include <pthread.h>
#include <unistd.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "server_bench.h"
#include "test.h"

static void sums_rounds_of(uint32_t parts, bool reproducible, uint32_t threads)
{
    bench its;
    bench_init(&its);
    its.settings.server.reproducible = reproducible;
    its.settings.decode_threads = threads;
    bench_begin(&its, parts);
    crew_hire(&its, WORKERS);
    crew_start(&its);
    for (uint32_t round = 0; round < 20; round++) {
        float parameter = (float)round + 0.5f;
        bench_good_round(&its, parameter);
        assert_int_equal(its.result.round, round);
        assert_true(its.result.exact);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_worker_state state = tarry_runtime_worker(its.server, worker);
        assert_true(state.present && state.arrivals == 1);
        assert_true(state.sent > PARAMETERS * sizeof(float) && state.received > 0);
    }
    bench_end(&its);
    assert_string_equal((const char *)its.crew.workers[0].job, "what to compute");
}

TEST(sums_rounds)
{
    sums_rounds_of(1, false, 1);
    sums_rounds_of(2, false, 3);
}

/* Reports in batches count as each by itself does. */
BENCH(takes_reports_in_batches)
{
    bench_open(its, 1);
    crew_hire(its, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i += 2)
        its->crew.workers[i].batches = true;
    crew_start(its);
    for (uint32_t round = 0; round < 20; round++) {
        bench_good_round(its, (float)round);
        assert_true(its->result.exact);
    }
    assert_int_equal(its->refused, 0);
}

TEST(sums_in_the_order_of_workers)
{
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
TEST(does_without_the_dead)
{
    for (script_death death = SCRIPT_DIES_COMPUTING; death <= SCRIPT_DIES_BEHIND_PART; death++) {
        OWNED(bench) its;
        bench_open(&its, 1);
        crew_hire(&its, WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++)
            its.crew.workers[i].slowness = 0.004;
        its.crew.workers[2].slowness = 0; /* it has a part in every sum, if the machine lets it */
        its.crew.workers[2].death = death;
        crew_start(&its);
        for (uint32_t round = 0; round < 3 || (count_gone(&its) == 0 && round < 1000); round++) {
            bench_good_round(&its, 2);
            assert_true(its.result.exact);
        }
        bench_await_count(&its, &its.gone, 1);
        tarry_worker_state lost = tarry_runtime_worker(its.server, 2);
        assert_true(!lost.present && lost.gone == 1);
    }
}

BENCH(says_when_it_cannot_go_on)
{
    bench_open(its, 1);
    tarry_diagnostic diagnostic = {{0}};
    assert_int_equal(
        tarry_runtime_round(its->server, its->parameters, its->sum, &its->result, &diagnostic),
        TARRY_ERROR_COVERAGE);
    assert_non_null(strstr(diagnostic.text, "all 6 workers are lost"));
    assert_int_equal(tarry_runtime_wait(its->server, 1, 1000000, &diagnostic), TARRY_ERROR_STATE);
    tarry_runtime_interrupt(its->server);
    assert_int_equal(tarry_runtime_wait(its->server, 1, TARRY_NEVER, &diagnostic),
                     TARRY_ERROR_INTERRUPTED);
}

static void *interrupt_soon(void *argument)
{
    usleep(50000);
    tarry_runtime_interrupt(argument);
    return NULL;
}

BENCH(can_be_interrupted)
{
    bench_open(its, 1);
    crew_hire(its, WORKERS);
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt_soon, its->server);
    assert_int_equal(bench_round(its, 1), TARRY_ERROR_INTERRUPTED); /* nobody computes yet */
    pthread_join(thread, NULL);
    crew_start(its);
    bench_good_round(its, 3);
}

typedef struct interrupter {
    tarry_runtime *server;
    useconds_t wait_us;
} interrupter;

static void *interrupt_then(void *argument)
{
    const interrupter *its = argument;
    usleep(its->wait_us);
    tarry_runtime_interrupt(its->server);
    return NULL;
}

/* In whichever turn of the loop the parts come that wait for each other. */
BENCH(can_be_interrupted_at_any_time)
{
    enum { TIMES = 300, LONGEST_US = 3000 };
    bench_init(its);
    its->settings.server.reproducible = true;
    bench_begin(its, 1);
    crew_hire(its, WORKERS);
    crew_start(its);
    random_stream random = random_stream_make(test_seed("tcp_server", 1), RANDOM_TEST, 0, 0);
    uint32_t interrupted = 0;
    for (uint32_t i = 0; i < TIMES; i++) {
        pthread_t thread;
        interrupter one = {.server = its->server, .wait_us = random_below(&random, LONGEST_US)};
        assert_int_equal(pthread_create(&thread, NULL, interrupt_then, &one), 0);
        int error = bench_round(its, 1);
        pthread_join(thread, NULL);
        if (error == TARRY_OK)
            assert_true_sum(its, 1);
        else
            assert_int_equal(error, TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
        error = bench_round(its, 2); /* which one that came late is for */
        assert_true(error == TARRY_OK || error == TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
    }
    assert_true(interrupted > 0);
}

/* One that reads nothing is sent no more than fits: what waits for it stays where it lies. */
BENCH(waits_for_no_slow_reader)
{
    bench_open_crewed_but_one(its);
    for (uint32_t round = 0; round < 50; round++)
        bench_good_round(its, 6);
    tarry_worker_state slow = tarry_runtime_worker(its->server, 0);
    assert_true(slow.sent < 50 * PARAMETERS * sizeof(float));
}

TEST(goes_on_with_another_plan)
{
    OWNED(tarry_plan) next = NULL; /* longer than the server */
    OWNED(bench) its;
    bench_open_crewed(&its);
    assert_ok(bench_round(&its, 1));
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    const double cost[CHUNKS] = {1, 1, 1, 9, 1, 1};
    wanted.cost = cost;
    wanted.heaviest = 2;
    tarry_plan_changes changes;
    next = plan_evolve(its.plan, &wanted, &changes);
    assert_true(changes.split > 0);
    its.chunks = tarry_plan_chunks(next);
    assert_ok(tarry_runtime_replan(its.server, next, NULL));
    for (uint32_t round = 0; round < 5; round++)
        bench_good_round(&its, 8);
    assert_true(tarry_runtime_worker(its.server, 0).present);
}

enum { READY_FRAME = WIRE_HEAD_BYTES + 2 * WIRE_DIGEST_BYTES + 12 };

/* A READY that was sent before the worker heard of the change, where the plan is the same again:
 * the worker turns to it all the same, and would forget a round that it was sent before. */
TEST(takes_no_word_on_a_plan_for_one_on_its_next_life)
{
    OWNED(tarry_plan) next = bench_plan(1), again = bench_plan(1); /* longer than the server */
    OWNED(bench) its;
    bench_open_crewed_but_one(&its);
    assert_ok(tarry_runtime_replan(its.server, next, NULL));
    script_await(&its.crew.workers[0], WIRE_BLOB);
    assert_ok(tarry_runtime_replan(its.server, again, NULL));
    tarry_worker_state before = tarry_runtime_worker(its.server, 0), now;
    wire_ready early = {.turn = 1};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    tarry_plan_digest(its.plan, early.plan);
    script_send(&its.crew.workers[0], frame, wire_encode(WIRE_READY, &early, frame));
    do {
        usleep(1000);
        now = tarry_runtime_worker(its.server, 0);
    } while (now.received < before.received + READY_FRAME);
    before = now; /* the plan has gone out by now */
    bench_good_round(&its, 1);
    now = tarry_runtime_worker(its.server, 0);
    assert_true(now.sent - before.sent < PARAMETERS * sizeof(float));
    crew_begin(&its, 0, crew_work);
    bench_good_round(&its, 2);
    assert_true(tarry_runtime_worker(its.server, 0).present);
}

/* One that takes its time to turn to another plan: of a round that is over by then it hears
 * nothing, as the parameters are the caller's again. */
TEST(sends_nothing_of_a_round_before)
{
    OWNED(tarry_plan) next = bench_plan(1); /* longer than the server */
    OWNED(bench) its;
    bench_open_crewed_but_one(&its);
    assert_ok(tarry_runtime_replan(its.server, next, NULL));
    bench_good_round(&its, 1);
    tarry_worker_state before = tarry_runtime_worker(its.server, 0), now;
    crew_begin(&its, 0, crew_work);
    do {
        usleep(1000);
        now = tarry_runtime_worker(its.server, 0);
    } while (now.received < before.received + READY_FRAME);
    usleep(50000);
    now = tarry_runtime_worker(its.server, 0);
    assert_true(now.sent - before.sent < PARAMETERS * sizeof(float));
    bench_good_round(&its, 2);
    assert_true(tarry_runtime_worker(its.server, 0).present);
}

static int make_server(void *user, const tarry_allocator *allocator)
{
    bench *its = user;
    tarry_runtime *server;
    int error = tarry_tcp_server_create(its->plan, &its->settings, allocator, &server, NULL);
    if (error == TARRY_OK)
        tarry_runtime_free(server, true);
    return error;
}

TEST(reports_every_failed_allocation)
{
    bench its;
    bench_init(&its);
    static const char *const listen[] = {"127.0.0.1:0"};
    its.settings.listen = listen;
    its.settings.listen_count = 1;
    its.settings.decode_threads = 2;
    its.plan = bench_plan(1);
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

TEST(survives_a_plan_that_can_not_be_encoded)
{
    OWNED(tarry_plan) next = bench_plan(1); /* longer than the server */
    OWNED(bench) its;
    bench_open(&its, 1);
    encoding_fails = true;
    assert_int_equal(tarry_runtime_replan(its.server, next, NULL), TARRY_ERROR_NO_MEMORY);
    its.settings.listen = (const char *const[]){"127.0.0.1:0"};
    its.settings.listen_count = 1;
    assert_int_equal(make_server(&its, NULL), TARRY_ERROR_NO_MEMORY);
    encoding_fails = false;
    assert_ok(tarry_runtime_replan(its.server, next, NULL));
}
