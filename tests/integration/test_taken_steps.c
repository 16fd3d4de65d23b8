/* SPDX-License-Identifier: Apache-2.0 */
/* Where everyone gets the sum, owners that take their worker's steps as they take gradients to
 * compute, in this process and over the network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include <tarry/local.h>
#include <tarry/tcp.h>

#include "replica.h"

enum { WORKERS = 4, CHUNKS = 8, DIMENSION = 300, ROUNDS = 12 };
#define PATIENCE_NS UINT64_C(60000000000)

typedef struct crew crew;

/* One worker, and the thread that computes and steps for it. */
typedef struct hand {
    crew *of;
    uint32_t worker;
    tarry_tcp_worker *remote; /* NULL: of the local runtime */
    tarry_replica replica;    /* as the runtime calls it */
    int (*step)(void *user, uint64_t step, const float *sum);
    pthread_t thread;
    int result; /* of the call that gave no task */
    uint64_t steps;
    uint64_t odd; /* of these, the ones whose task was not as it should be */
} hand;

struct crew {
    replica_job job;
    tarry_plan *plan;
    tarry_runtime *runtime;
    bool network;
    hand hands[WORKERS];
    char address[64];
    uint64_t holds_at;    /* worker 0 keeps the first step that it takes from this one on, */
    _Atomic bool holds;   /* and does so now, */
    _Atomic bool lets_go; /* until this is set */
    _Atomic bool ends;    /* who still steps may do so in vain */
    uint64_t fails_at;    /* from this one on it gives back an error: */
    int gives;
};

static int take(hand *own, const tarry_task **task)
{
    return own->remote != NULL ? tarry_tcp_worker_take(own->remote, TARRY_NEVER, task, NULL)
                               : tarry_local_take(own->of->runtime, own->worker, TARRY_NEVER, task);
}

static int step_on(hand *own, const tarry_task *task)
{
    crew *all = own->of;
    bool in_vain =
        tarry_compute_cancelled(task); /* asked first: the end is marked before it begins */
    own->odd += task->gradient != NULL || task->span_count != 0 || task->dimension != DIMENSION ||
                (in_vain && !all->ends);
    if (own->worker == 0 && all->fails_at != 0 && task->step >= all->fails_at)
        return all->gives;
    if (own->worker == 0 && all->holds_at != 0 && task->step >= all->holds_at && !all->holds) {
        all->holds = true;
        while (!all->lets_go)
            usleep(1000);
    }
    own->steps++;
    return own->step(own->replica.user, task->step, task->sum);
}

static void *work(void *argument)
{
    hand *own = argument;
    const tarry_task *task;
    while ((own->result = take(own, &task)) == TARRY_OK && task != NULL)
        tarry_task_give(task, task->sum != NULL ? step_on(own, task)
                                                : replica_compute(&own->of->job, task));
    return NULL;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    (void)job, (void)data, (void)diagnostic;
    hand *own = user;
    tarry_tcp_worker_replica(worker, &own->replica, NULL);
    return TARRY_OK;
}

static void make_server_settings(tarry_server_settings *server)
{
    server->sum = TARRY_SUM_EVERYWHERE;
    server->silence_ns = UINT64_C(30000000000);
    server->stripe_length = 100;
    server->digest_steps = 2;
}

static void begin_local(crew *own)
{
    tarry_replica replicas[WORKERS];
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        replicas[worker] = own->hands[worker].replica;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    make_server_settings(&settings.server);
    settings.replicas = replicas;
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
    settings.listen = "127.0.0.1:0";
    assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &own->remote, NULL), TARRY_OK);
}

static void begin_network(crew *own)
{
    const char *listen[] = {own->address};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    snprintf(own->address, sizeof(own->address), "unix:@tarry-test-steps-%ld", (long)getpid());
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = settings.dimension = DIMENSION;
    make_server_settings(&settings.server);
    assert_int_equal(tarry_tcp_server_create(own->plan, &settings, NULL, &own->runtime, NULL),
                     TARRY_OK);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        make_remote(&own->hands[worker]);
}

static void begin_crew(crew *own, bool network)
{
    *own = (crew){.network = network};
    replica_job_init(&own->job, WORKERS, CHUNKS, DIMENSION);
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = WORKERS;
    wanted.chunks = CHUNKS;
    assert_int_equal(tarry_plan_create(&wanted, NULL, &own->plan, NULL), TARRY_OK);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        hand *one = &own->hands[worker];
        *one = (hand){.of = own, .worker = worker, .replica = replica_of(&own->job, worker)};
        one->step = one->replica.step;
        one->replica.step = NULL;
    }
}

static void start(crew *own)
{
    if (own->network)
        begin_network(own);
    else
        begin_local(own);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        pthread_create(&own->hands[worker].thread, NULL, work, &own->hands[worker]);
    assert_int_equal(tarry_runtime_wait(own->runtime, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
}

static void run(crew *own, uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++) {
        tarry_round_result result;
        tarry_diagnostic why;
        int error = tarry_runtime_round(own->runtime, NULL, NULL, &result, &why);
        if (error != TARRY_OK)
            fail_msg("%s", why.text);
        assert_true(result.exact);
    }
}

/* All threads end by themselves. */
static void end(crew *own)
{
    own->ends = true;
    if (own->network)
        tarry_runtime_free(own->runtime, true);
    else
        tarry_local_dismiss(own->runtime);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        pthread_join(own->hands[worker].thread, NULL);
        assert_int_equal(own->hands[worker].odd, 0);
        tarry_tcp_worker_free(own->hands[worker].remote);
    }
    if (!own->network)
        tarry_runtime_free(own->runtime, true);
    tarry_plan_free(own->plan);
    replica_job_end(&own->job);
}

static void all_have_stepped(crew *own, uint64_t rounds)
{
    assert_int_equal(tarry_runtime_wait(own->runtime, WORKERS, PATIENCE_NS, NULL), TARRY_OK);
    float *expected = replica_expect(&own->job, rounds);
    replica_check(&own->job, rounds);
    replica_compare(&own->job, expected);
    free(expected);
}

static void owners_step(bool network)
{
    crew own;
    begin_crew(&own, network);
    start(&own);
    run(&own, ROUNDS);
    all_have_stepped(&own, ROUNDS);
    end(&own);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_int_equal(own.hands[worker].result, TARRY_OK);
}

static void steps_are_taken_here(void **state)
{
    (void)state;
    owners_step(false);
}

static void steps_are_taken_over_the_network(void **state)
{
    (void)state;
    owners_step(true);
}

/* Others go on without one that keeps its step; it gets what it missed, and steps with them again.
 */
static void who_keeps_a_step_holds_up_nobody(bool network)
{
    crew own;
    begin_crew(&own, network);
    own.holds_at = 3;
    start(&own);
    uint64_t rounds = 0;
    for (; !own.holds; rounds++) /* it may miss some, and get the state after them */
        run(&own, 1);
    run(&own, ROUNDS / 2);
    own.lets_go = true;
    rounds += ROUNDS / 2;
    all_have_stepped(&own, rounds);
    assert_true(own.hands[0].steps < rounds);
    end(&own);
}

static void who_keeps_a_step_here_holds_up_nobody(void **state)
{
    (void)state;
    who_keeps_a_step_holds_up_nobody(false);
}

static void who_keeps_a_step_far_away_holds_up_nobody(void **state)
{
    (void)state;
    who_keeps_a_step_holds_up_nobody(true);
}

/* An owner that can't step ends its worker alone. */
static void an_owner_that_fails_ends_its_worker(void **state)
{
    (void)state;
    crew own;
    begin_crew(&own, true);
    own.fails_at = 2;
    own.gives = TARRY_ERROR_NO_MEMORY;
    start(&own);
    while (tarry_runtime_worker(own.runtime, 0).present)
        run(&own, 1);
    run(&own, ROUNDS);
    end(&own);
    assert_int_equal(own.hands[0].result, TARRY_ERROR_NO_MEMORY);
    assert_int_equal(own.hands[1].result, TARRY_OK);
}

/* A runtime that computes by itself has nobody to take steps. */
static void steps_are_not_taken_without_tasks(void **state)
{
    (void)state;
    crew own;
    tarry_diagnostic why;
    tarry_replica replicas[WORKERS];
    begin_crew(&own, false);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        replicas[worker] = own.hands[worker].replica;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.compute = replica_compute;
    settings.user = &own.job;
    settings.replicas = replicas;
    make_server_settings(&settings.server);
    assert_int_equal(tarry_local_create(own.plan, &settings, NULL, &own.runtime, &why),
                     TARRY_ERROR_ARGUMENT);
    tarry_plan_free(own.plan);
    replica_job_end(&own.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_taken_here),
        cmocka_unit_test(steps_are_taken_over_the_network),
        cmocka_unit_test(who_keeps_a_step_here_holds_up_nobody),
        cmocka_unit_test(who_keeps_a_step_far_away_holds_up_nobody),
        cmocka_unit_test(an_owner_that_fails_ends_its_worker),
        cmocka_unit_test(steps_are_not_taken_without_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
