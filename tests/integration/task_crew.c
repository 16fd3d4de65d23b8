/* SPDX-License-Identifier: Apache-2.0 */
#include "task_crew.h"

#include <stdio.h>
#include <unistd.h>

#include <tarry/local.h>

#include "edge_plan.h"
#include "test.h"

int task_hand_take(task_hand *own, uint64_t wait_ns, const tarry_task **task)
{
    return own->remote != NULL ? tarry_tcp_worker_take(own->remote, wait_ns, task, NULL)
                               : tarry_local_take(own->of->runtime, own->worker, wait_ns, task);
}

static void *work(void *argument)
{
    task_hand *own = argument;
    const tarry_task *task;
    while ((own->result = task_hand_take(own, TARRY_NEVER, &task)) == TARRY_OK && task != NULL)
        own->of->does(own, task);
    return NULL;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    task_hand *own = user;
    assert_int_equal(job->worker, own->worker);
    own->begun += pthread_equal(pthread_self(), own->thread) != 0;
    if (own->of->steps)
        tarry_tcp_worker_replica(worker, &own->replica, NULL);
    return TARRY_OK;
}

void task_crew_server(const task_crew *own, tarry_server_settings *server)
{
    server->silence_ns = UINT64_C(30000000000);
    if (!own->steps)
        return;
    server->sum = TARRY_SUM_EVERYWHERE;
    server->stripe_length = 100;
    server->digest_steps = 2;
}

static void begin_local(task_crew *own)
{
    tarry_replica replicas[TASK_WORKERS];
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = own->steps ? TASK_DIMENSION : 1;
    settings.dimension = TASK_DIMENSION;
    task_crew_server(own, &settings.server);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        replicas[worker] = own->hands[worker].replica;
    settings.replicas = own->steps ? replicas : NULL;
    assert_ok(tarry_local_create(own->plan, &settings, NULL, &own->runtime, NULL));
}

static void make_remote(task_hand *own)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = own->of->address;
    settings.security.insecure = true;
    settings.worker = own->worker;
    settings.begin = begin;
    settings.user = own;
    settings.listen = own->of->steps ? "127.0.0.1:0" : NULL;
    assert_ok(tarry_tcp_worker_create(&settings, NULL, &own->remote, NULL));
}

static void begin_network(task_crew *own)
{
    const char *listen[] = {own->address};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    snprintf(own->address, sizeof(own->address), "unix:@tarry-test-tasks-%ld", (long)getpid());
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = own->steps ? TASK_DIMENSION : 1;
    settings.dimension = TASK_DIMENSION;
    task_crew_server(own, &settings.server);
    assert_ok(tarry_tcp_server_create(own->plan, &settings, NULL, &own->runtime, NULL));
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        make_remote(&own->hands[worker]);
}

void task_crew_make(task_crew *own, uint32_t replication)
{
    own->plan = plan_drawn(TASK_WORKERS, TASK_CHUNKS, replication, 1);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++) {
        own->hands[worker].of = own;
        own->hands[worker].worker = worker;
    }
}

void task_crew_begin(task_crew *own)
{
    if (own->network)
        begin_network(own);
    else
        begin_local(own);
}

void task_crew_start(task_crew *own)
{
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++)
        pthread_create(&own->hands[worker].thread, NULL, work, &own->hands[worker]);
    assert_ok(tarry_runtime_wait(own->runtime, TASK_WORKERS, TASK_PATIENCE_NS, NULL));
}

void task_crew_end(task_crew *own)
{
    if (own->network)
        tarry_runtime_free(own->runtime, true);
    else
        tarry_local_dismiss(own->runtime);
    for (uint32_t worker = 0; worker < TASK_WORKERS; worker++) {
        pthread_join(own->hands[worker].thread, NULL);
        tarry_tcp_worker_free(own->hands[worker].remote);
    }
    if (!own->network)
        tarry_runtime_free(own->runtime, true);
    tarry_plan_free(own->plan);
}
