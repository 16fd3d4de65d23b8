/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose owners take tasks and give them back, in this process and over the network: the
 * same stories of both. */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include <tarry/local.h>
#include <tarry/tcp.h>

enum { WORKERS = 4, CHUNKS = 8, DIMENSION = 300 };

typedef struct crew crew;

/* One worker, and the thread that computes for it. */
typedef struct hand {
    crew *of;
    uint32_t worker;
    tarry_tcp_worker *remote; /* NULL: of the local runtime */
    pthread_t thread;
    int result; /* of the call that gave no task */
    unsigned late;
    _Atomic unsigned begun; /* calls of `begin` in its thread */
} hand;

struct crew {
    tarry_plan *plan;
    tarry_runtime *runtime;
    bool network;
    hand hands[WORKERS];
    char address[64];
    float parameters[1], sum[DIMENSION];
    _Atomic bool dawdles; /* worker 0, until nobody waits for its task */
};

static int take(hand *own, uint64_t wait_ns, const tarry_task **task)
{
    return own->remote != NULL ? tarry_tcp_worker_take(own->remote, wait_ns, task, NULL)
                               : tarry_local_take(own->of->runtime, own->worker, wait_ns, task);
}

static void fill(const tarry_task *task)
{
    for (size_t i = 0; i < task->dimension; i++)
        task->gradient[i] = task->parameters[0] * (float)((task->chunk + 1) * (i % 7 + 1));
}

static void *work(void *argument)
{
    hand *own = argument;
    const tarry_task *task;
    while ((own->result = take(own, TARRY_NEVER, &task)) == TARRY_OK && task != NULL) {
        bool dawdles = own->worker == 0 && atomic_exchange(&own->of->dawdles, false);
        while (dawdles && !tarry_compute_cancelled(task))
            sched_yield();
        fill(task);
        own->late += tarry_task_give(task, 0) == TARRY_ERROR_STATE;
    }
    return NULL;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    (void)worker, (void)data, (void)diagnostic;
    hand *own = user;
    assert_int_equal(job->worker, own->worker);
    own->begun += pthread_equal(pthread_self(), own->thread) != 0;
    return TARRY_OK;
}

static void begin_local(crew *own)
{
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = 1;
    settings.dimension = DIMENSION;
    settings.server.silence_ns = UINT64_C(30000000000);
    assert_int_equal(tarry_local_create(own->plan, &settings, NULL, &own->runtime, NULL), TARRY_OK);
}

static void make_remote(hand *own)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = own->of->address;
    settings.security.insecure = true;
    settings.worker = own->worker;
    settings.begin = begin;
    settings.user = own;
    assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &own->remote, NULL), TARRY_OK);
}

static void begin_network(crew *own)
{
    const char *listen[] = {own->address};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    snprintf(own->address, sizeof(own->address), "unix:@tarry-test-pull-%ld", (long)getpid());
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = 1;
    settings.dimension = DIMENSION;
    settings.server.silence_ns = UINT64_C(30000000000);
    assert_int_equal(tarry_tcp_server_create(own->plan, &settings, NULL, &own->runtime, NULL),
                     TARRY_OK);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        make_remote(&own->hands[worker]);
}

static void begin_crew(crew *own, uint32_t replication, bool network)
{
    *own = (crew){.network = network};
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = WORKERS;
    wanted.replication = replication;
    assert_int_equal(tarry_plan_create(&wanted, NULL, &own->plan, NULL), TARRY_OK);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        own->hands[worker] = (hand){.of = own, .worker = worker};
    if (network)
        begin_network(own);
    else
        begin_local(own);
}

static void start(crew *own)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        pthread_create(&own->hands[worker].thread, NULL, work, &own->hands[worker]);
    assert_int_equal(tarry_runtime_wait(own->runtime, WORKERS, TARRY_NEVER, NULL), TARRY_OK);
}

/* All threads end by themselves. */
static void end_crew(crew *own)
{
    if (own->network)
        tarry_runtime_free(own->runtime, true);
    else
        tarry_local_dismiss(own->runtime);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        pthread_join(own->hands[worker].thread, NULL);
        assert_int_equal(own->hands[worker].result, TARRY_OK);
        tarry_tcp_worker_free(own->hands[worker].remote);
    }
    if (!own->network)
        tarry_runtime_free(own->runtime, true);
    tarry_plan_free(own->plan);
}

static void sums_are_exact(crew *own, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        tarry_round_result result;
        own->parameters[0] += 1;
        int error = tarry_runtime_round(own->runtime, own->parameters, own->sum, &result, NULL);
        assert_int_equal(error, TARRY_OK);
        assert_true(result.exact);
        for (size_t i = 0; i < DIMENSION; i++) {
            double truth = own->parameters[0] * 36 * (double)(i % 7 + 1);
            assert_true(fabs(own->sum[i] - truth) < 1e-4 * truth);
        }
    }
}

static void sums_of_what_was_taken(bool network)
{
    crew own;
    begin_crew(&own, 3, network);
    start(&own);
    sums_are_exact(&own, 5);
    for (uint32_t worker = 0; network && worker < WORKERS; worker++)
        assert_int_equal(own.hands[worker].begun, 1);
    end_crew(&own);
}

static void tasks_are_taken_here(void **state)
{
    (void)state;
    sums_of_what_was_taken(false);
}

static void tasks_are_taken_over_the_network(void **state)
{
    (void)state;
    sums_of_what_was_taken(true);
}

/* Its chunks are done by others; what it gives comes too late, and it goes on with the next round.
 */
static void who_dawdles_learns_it(bool network)
{
    crew own;
    begin_crew(&own, 3, network);
    own.dawdles = true;
    start(&own);
    sums_are_exact(&own, 1);
    while (own.dawdles) /* it may not have come to it before the round was over */
        sums_are_exact(&own, 1);
    sums_are_exact(&own, 3);
    end_crew(&own);
    assert_true(own.hands[0].late >= 1);
}

static void a_straggler_here_learns_that_its_task_is_not_wanted(void **state)
{
    (void)state;
    who_dawdles_learns_it(false);
}

static void a_straggler_far_away_learns_that_its_task_is_not_wanted(void **state)
{
    (void)state;
    who_dawdles_learns_it(true);
}

static void nothing_to_take_is_said(void **state)
{
    (void)state;
    crew own;
    const tarry_task *task;
    begin_crew(&own, 3, false);
    assert_int_equal(take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    start(&own);
    end_crew(&own);
    begin_crew(&own, 3, true);
    assert_int_equal(tarry_tcp_worker_run(own.hands[0].remote, NULL), TARRY_ERROR_STATE);
    start(&own);
    assert_int_equal(take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    end_crew(&own);
}

static void *run_round(void *argument)
{
    crew *own = argument;
    tarry_round_result result;
    tarry_runtime_round(own->runtime, own->parameters, own->sum, &result, NULL);
    return NULL;
}

/* An owner that gives up in the middle of a task frees its worker, and nobody waits for the task.
 */
static void a_worker_is_freed_with_its_task_out(void **state)
{
    (void)state;
    crew own;
    pthread_t rounds;
    const tarry_task *task;
    begin_crew(&own, WORKERS, true);
    assert_int_equal(tarry_runtime_open(own.runtime, NULL), TARRY_OK);
    own.hands[0].thread = pthread_self();
    while (take(&own.hands[0], 0, &task) == TARRY_ERROR_STATE &&
           !tarry_runtime_worker(own.runtime, 0).present)
        sched_yield();
    pthread_create(&rounds, NULL, run_round, &own);
    assert_int_equal(take(&own.hands[0], TARRY_NEVER, &task), TARRY_OK);
    assert_non_null(task);
    assert_int_equal(take(&own.hands[0], 0, &task), TARRY_ERROR_STATE);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        tarry_tcp_worker_free(own.hands[worker].remote);
    pthread_join(rounds, NULL); /* for want of coverage */
    tarry_runtime_free(own.runtime, true);
    tarry_plan_free(own.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_taken_here),
        cmocka_unit_test(tasks_are_taken_over_the_network),
        cmocka_unit_test(a_straggler_here_learns_that_its_task_is_not_wanted),
        cmocka_unit_test(a_straggler_far_away_learns_that_its_task_is_not_wanted),
        cmocka_unit_test(nothing_to_take_is_said),
        cmocka_unit_test(a_worker_is_freed_with_its_task_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
