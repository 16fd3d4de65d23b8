/* SPDX-License-Identifier: Apache-2.0 */
/* The network server with scripted workers at the other end of its connections: its rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "server_bench.h"

static void sums_rounds_of(uint32_t parts, bool reproducible, uint32_t threads)
{
    bench its;
    crew all;
    bench_init(&its);
    its.settings.server.reproducible = reproducible;
    its.settings.decode_threads = threads;
    bench_begin(&its, parts);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    for (uint32_t round = 0; round < 20; round++) {
        float parameter = (float)round + 0.5f;
        assert_int_equal(bench_round(&its, parameter), TARRY_OK);
        assert_int_equal(its.result.round, round);
        assert_true(its.result.exact);
        assert_true_sum(&its, parameter);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        tarry_worker_state state = tarry_runtime_worker(its.server, worker);
        assert_true(state.present && state.arrivals == 1);
        assert_true(state.sent > PARAMETERS * sizeof(float) && state.received > 0);
    }
    bench_end(&its);
    crew_dismiss(&all);
    assert_string_equal((const char *)all.workers[0].job, "what to compute");
}

static void sums_rounds(void **state)
{
    (void)state;
    sums_rounds_of(1, false, 1);
    sums_rounds_of(2, false, 3);
}

/* Reports in batches count as each by itself does. */
static void takes_reports_in_batches(void **state)
{
    (void)state;
    bench its;
    crew all;
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i += 2)
        all.workers[i].batches = true;
    crew_start(&all);
    for (uint32_t round = 0; round < 20; round++) {
        assert_int_equal(bench_round(&its, (float)round), TARRY_OK);
        assert_true(its.result.exact);
        assert_true_sum(&its, (float)round);
    }
    assert_int_equal(its.refused, 0);
    bench_end(&its);
    crew_dismiss(&all);
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
        bench_init(&its);
        bench_begin(&its, 1);
        crew_hire(&all, &its, WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++)
            all.workers[i].slowness = 0.004;
        all.workers[2].slowness = 0; /* it has a part in every sum, if the machine lets it */
        all.workers[2].death = death;
        crew_start(&all);
        for (uint32_t round = 0; round < 3 || (count_gone(&its) == 0 && round < 1000); round++) {
            assert_int_equal(bench_round(&its, 2), TARRY_OK);
            assert_true(its.result.exact);
            assert_true_sum(&its, 2);
        }
        bench_await_count(&its, &its.gone, 1);
        tarry_worker_state lost = tarry_runtime_worker(its.server, 2);
        assert_true(!lost.present && lost.gone == 1);
        bench_end(&its);
        crew_dismiss(&all);
    }
}

static void says_when_it_cannot_go_on(void **state)
{
    (void)state;
    bench its;
    bench_init(&its);
    bench_begin(&its, 1);
    tarry_diagnostic diagnostic = {{0}};
    assert_int_equal(
        tarry_runtime_round(its.server, its.parameters, its.sum, &its.result, &diagnostic),
        TARRY_ERROR_COVERAGE);
    assert_non_null(strstr(diagnostic.text, "all 6 workers are lost"));
    assert_int_equal(tarry_runtime_wait(its.server, 1, 1000000, &diagnostic), TARRY_ERROR_STATE);
    tarry_runtime_interrupt(its.server);
    assert_int_equal(tarry_runtime_wait(its.server, 1, TARRY_NEVER, &diagnostic),
                     TARRY_ERROR_INTERRUPTED);
    bench_end(&its);
}

static void *interrupt_soon(void *argument)
{
    usleep(50000);
    tarry_runtime_interrupt(argument);
    return NULL;
}

static void can_be_interrupted(void **state)
{
    (void)state;
    bench its;
    crew all;
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt_soon, its.server);
    assert_int_equal(bench_round(&its, 1), TARRY_ERROR_INTERRUPTED); /* nobody computes yet */
    pthread_join(thread, NULL);
    crew_start(&all);
    assert_int_equal(bench_round(&its, 3), TARRY_OK);
    assert_true_sum(&its, 3);
    bench_end(&its);
    crew_dismiss(&all);
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
static void can_be_interrupted_at_any_time(void **state)
{
    (void)state;
    enum { TIMES = 300, LONGEST_US = 3000 };
    bench its;
    crew all;
    bench_init(&its);
    its.settings.server.reproducible = true;
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    random_stream random = random_stream_make(test_seed("tcp_server", 1), RANDOM_TEST, 0, 0);
    uint32_t interrupted = 0;
    for (uint32_t i = 0; i < TIMES; i++) {
        pthread_t thread;
        interrupter one = {.server = its.server, .wait_us = random_below(&random, LONGEST_US)};
        assert_int_equal(pthread_create(&thread, NULL, interrupt_then, &one), 0);
        int error = bench_round(&its, 1);
        pthread_join(thread, NULL);
        if (error == TARRY_OK)
            assert_true_sum(&its, 1);
        else
            assert_int_equal(error, TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
        error = bench_round(&its, 2); /* which one that came late is for */
        assert_true(error == TARRY_OK || error == TARRY_ERROR_INTERRUPTED);
        interrupted += error != TARRY_OK;
    }
    assert_true(interrupted > 0);
    bench_end(&its);
    crew_dismiss(&all);
}

/* One that reads nothing is sent no more than fits: what waits for it stays where it lies. */
static void waits_for_no_slow_reader(void **state)
{
    (void)state;
    bench its;
    crew all;
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        pthread_create(&all.threads[i], NULL, crew_work, &all.workers[i]);
    for (uint32_t round = 0; round < 50; round++) {
        assert_int_equal(bench_round(&its, 6), TARRY_OK);
        assert_true_sum(&its, 6);
    }
    tarry_worker_state slow = tarry_runtime_worker(its.server, 0);
    assert_true(slow.sent < 50 * PARAMETERS * sizeof(float));
    bench_end(&its);
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
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    crew_start(&all);
    assert_int_equal(bench_round(&its, 1), TARRY_OK);
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
    assert_int_equal(tarry_runtime_replan(its.server, next, NULL), TARRY_OK);
    for (uint32_t round = 0; round < 5; round++) {
        assert_int_equal(bench_round(&its, 8), TARRY_OK);
        assert_true_sum(&its, 8);
    }
    assert_true(tarry_runtime_worker(its.server, 0).present);
    bench_end(&its);
    crew_dismiss(&all);
    tarry_plan_free(next);
}

/* One that takes its time to turn to another plan: of a round that is over by then it hears
 * nothing, as the parameters are the caller's again. */
static void sends_nothing_of_a_round_before(void **state)
{
    (void)state;
    enum { READY_FRAME = WIRE_HEAD_BYTES + 2 * WIRE_DIGEST_BYTES + 8 };
    bench its;
    crew all;
    bench_init(&its);
    bench_begin(&its, 1);
    crew_hire(&all, &its, WORKERS);
    for (uint32_t i = 1; i < WORKERS; i++)
        pthread_create(&all.threads[i], NULL, crew_work, &all.workers[i]);
    tarry_plan *next = bench_plan(1);
    assert_int_equal(tarry_runtime_replan(its.server, next, NULL), TARRY_OK);
    assert_int_equal(bench_round(&its, 1), TARRY_OK);
    assert_true_sum(&its, 1);
    tarry_worker_state before = tarry_runtime_worker(its.server, 0), now;
    pthread_create(&all.threads[0], NULL, crew_work, &all.workers[0]);
    do {
        usleep(1000);
        now = tarry_runtime_worker(its.server, 0);
    } while (now.received < before.received + READY_FRAME);
    usleep(50000);
    now = tarry_runtime_worker(its.server, 0);
    assert_true(now.sent - before.sent < PARAMETERS * sizeof(float));
    assert_int_equal(bench_round(&its, 2), TARRY_OK);
    assert_true_sum(&its, 2);
    assert_true(tarry_runtime_worker(its.server, 0).present);
    bench_end(&its);
    crew_dismiss(&all);
    tarry_plan_free(next);
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

static void reports_every_failed_allocation(void **state)
{
    (void)state;
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

static void survives_a_plan_that_can_not_be_encoded(void **state)
{
    (void)state;
    bench its;
    bench_init(&its);
    bench_begin(&its, 1);
    tarry_plan *next = bench_plan(1);
    encoding_fails = true;
    assert_int_equal(tarry_runtime_replan(its.server, next, NULL), TARRY_ERROR_NO_MEMORY);
    its.settings.listen = (const char *const[]){"127.0.0.1:0"};
    its.settings.listen_count = 1;
    assert_int_equal(make_server(&its, NULL), TARRY_ERROR_NO_MEMORY);
    encoding_fails = false;
    assert_int_equal(tarry_runtime_replan(its.server, next, NULL), TARRY_OK);
    bench_end(&its);
    tarry_plan_free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_rounds),
        cmocka_unit_test(takes_reports_in_batches),
        cmocka_unit_test(sums_in_the_order_of_workers),
        cmocka_unit_test(does_without_the_dead),
        cmocka_unit_test(says_when_it_cannot_go_on),
        cmocka_unit_test(can_be_interrupted),
        cmocka_unit_test(can_be_interrupted_at_any_time),
        cmocka_unit_test(waits_for_no_slow_reader),
        cmocka_unit_test(goes_on_with_another_plan),
        cmocka_unit_test(sends_nothing_of_a_round_before),
        cmocka_unit_test(reports_every_failed_allocation),
        cmocka_unit_test(survives_a_plan_that_can_not_be_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
