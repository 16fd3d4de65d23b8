/* SPDX-License-Identifier: Apache-2.0 */
/* A network server and workers in one process: what they bring is the true sum. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/random.h"
#include "cluster.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

static int no_compute(void *user, const tarry_task *task)
{
    return -1;
}

static int note_size(void *user, const tarry_server *machine)
{
    size_t *size = user;
    *size = tarry_server_checkpoint_size(machine);
    return 0;
}

static size_t checkpoint_size(cluster *its)
{
    size_t size;
    tarry_runtime_visit(its->server, note_size, &size);
    return size;
}

static tarry_plan *next_plan(const tarry_plan *plan, random_stream *stream)
{
    tarry_plan_evolution wanted;
    tarry_plan_evolution_init(&wanted);
    double paces[CLUSTER_MOST_WORKERS], cost[256];
    for (uint32_t worker = 0; worker < CLUSTER_MOST_WORKERS; worker++)
        paces[worker] = 0.1 + random_uniform(stream);
    for (uint32_t chunk = 0; chunk < 256; chunk++)
        cost[chunk] = 1e-3 + pow(random_uniform(stream), 6);
    wanted.pace = paces;
    wanted.cost = cost;
    wanted.heaviest = 2;
    wanted.lightest = 0.7;
    wanted.most_moves = 5;
    assert_true(tarry_plan_chunks(plan) <= 256);
    return plan_evolve(plan, &wanted, NULL);
}

static void replan(cluster *its, random_stream *stream)
{
    cluster_replan(its, next_plan(its->plan, stream));
}

CLUSTER(test_plain)
{
    cluster_init(its);
    its->settings.job = "what to compute";
    its->settings.job_size = sizeof("what to compute");
    cluster_begin(its);
    cluster_exact_rounds(its, 20);
    for (uint32_t worker = 0; worker < its->workers; worker++) {
        tarry_tcp_work work = tarry_tcp_worker_work(its->members[worker].worker);
        assert_int_equal(work.worker, worker);
        assert_int_equal(work.connections, 1);
        assert_int_equal(work.computed_again, 0);
        assert_int_equal(its->members[worker].begun, 1);
    }
}

CLUSTER(test_tls)
{
    cluster_init(its);
    its->tls = true;
    cluster_begin(its);
    cluster_exact_rounds(its, 20);
}

CLUSTER(test_unix_socket)
{
    char socket[64];
    snprintf(socket, sizeof(socket), "unix:/tmp/tarry-test-%d", (int)getpid());
    cluster_init(its);
    its->socket = socket;
    its->near = true;
    cluster_begin(its);
    cluster_exact_rounds(its, 20);
}

/* All that a plan and a server can be told to do goes over a network as well. */
TEST(test_parts)
{
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (int reproducible = 0; reproducible <= 1; reproducible++) {
            cluster its;
            cluster_init(&its);
            its.plan_settings.parts = parts;
            its.settings.server.reproducible = reproducible;
            cluster_begin(&its);
            cluster_exact_rounds(&its, 5);
            cluster_end(&its);
        }
}

CLUSTER(test_keep_credited)
{
    cluster_init(its);
    its->plan_settings.chunks = 24;
    its->settings.server.keep = TARRY_KEEP_CREDITED;
    its->straggler_spec = "exp:0.0005/chunk";
    cluster_begin(its);
    cluster_exact_rounds(its, 10);
}

CLUSTER(test_dynamic_orders)
{
    cluster_init(its);
    its->plan_settings.chunks = 24;
    its->settings.server.pick = TARRY_PICK_SHARE;
    its->straggler_spec = "exp:0.0005/chunk";
    cluster_begin(its);
    cluster_exact_rounds(its, 5);
}

TEST(test_stop_rules)
{
    for (int stop = TARRY_STOP_DEADLINE; stop <= TARRY_STOP_WORKERS; stop++)
        for (int fill = TARRY_FILL_NONE; fill <= TARRY_FILL_STALE; fill++) {
            if (stop == TARRY_STOP_WORKERS && fill != TARRY_FILL_NONE)
                continue;
            cluster its;
            cluster_init(&its);
            its.settings.server.stop = (tarry_stop)stop;
            its.settings.server.fill = (tarry_fill)fill;
            its.settings.server.deadline_ns = 3000000;
            its.settings.server.error_limit = 0.4;
            its.settings.server.workers_needed = 4;
            its.straggler_spec = "exp:0.001/chunk";
            cluster_begin(&its);
            for (int round = 0; round < 5; round++)
                cluster_good_round(&its);
            cluster_end(&its);
        }
}

CLUSTER(test_shipped_data)
{
    cluster_init(its);
    its->plan_settings.chunks = 24;
    its->ships = true;
    cluster_begin(its);
    cluster_exact_rounds(its, 3);
}

CLUSTER(test_replan)
{
    random_stream stream = random_stream_make(test_seed("tcp replan", 3), RANDOM_TEST, 0, 0);
    cluster_init(its);
    its->plan_settings.chunks = 24;
    its->settings.server.pick = TARRY_PICK_SHARE;
    cluster_begin(its);
    for (int i = 0; i < 10; i++) {
        cluster_exact_rounds(its, 2);
        replan(its, &stream);
    }
    cluster_exact_rounds(its, 2);
    for (uint32_t worker = 0; worker < its->workers; worker++)
        assert_int_equal(its->members[worker].begun, 1);
}

/* ---- workers that leave, servers that stop ---- */

CLUSTER(test_leave)
{
    cluster_init(its);
    cluster_begin(its);
    cluster_exact_rounds(its, 2);
    tarry_tcp_worker_leave(its->members[2].worker, UINT64_C(1000000000));
    cluster_join(its, 2);
    assert_ok(its->members[2].result);
    cluster_exact_rounds(its, 2);
    /* One that comes again is taken in. */
    cluster_start(its, 2);
    cluster_wait(its, its->workers);
    cluster_exact_rounds(its, 2);
}

/* In the middle of a round: chunks are handed back, what is finished is used. */
CLUSTER(test_leave_in_a_round)
{
    cluster_init(its);
    its->plan_settings.chunks = 24;
    cluster_begin(its);
    for (uint32_t worker = 0; worker < its->workers; worker++)
        cluster_hold(its, worker, 2);
    cluster_call call;
    cluster_begin_round(its, &call);
    cluster_await_held(its, 1);
    tarry_tcp_worker_leave(its->members[1].worker, UINT64_C(60000000000));
    cluster_release(its);
    cluster_join(its, 1);
    cluster_end_round(&call);
    assert_ok(its->members[1].result);
    assert_ok(call.error);
    assert_true(call.result.exact);
    assert_true(cluster_error(its) < 1e-5);
    assert_int_equal(call.result.workers_lost, 0);
}

CLUSTER(test_leave_at_once)
{
    cluster_init(its);
    cluster_begin_server(its);
    cluster_start(its, 0);
    tarry_tcp_worker_leave(its->members[0].worker, 0);
    cluster_join(its, 0);
    assert_ok(its->members[0].result);
}

/* A server that is made anew from a checkpoint is found again, and goes on. */
CLUSTER(test_restart)
{
    cluster_init(its);
    cluster_begin(its);
    cluster_exact_rounds(its, 3);
    OWNED(uint8_t) checkpoint = NULL;
    size_t size = 0;
    for (int again = 0; again < 3; again++) {
        uint8_t id[TARRY_JOB_ID_SIZE];
        size = checkpoint_size(its);
        checkpoint = realloc(checkpoint, size);
        assert_non_null(checkpoint);
        assert_ok(tarry_runtime_checkpoint(its->server, checkpoint));
        tarry_runtime_job_id(its->server, id);
        tarry_runtime_free(its->server, false);
        memcpy(its->settings.job_id, id, sizeof(id));
        its->settings.checkpoint = checkpoint;
        its->settings.checkpoint_size = size;
        cluster_begin_server(its);
        assert_ok(tarry_runtime_checkpoint(its->server, checkpoint));
        tarry_runtime_stored(its->server, checkpoint);
        cluster_wait(its, its->workers);
        cluster_exact_rounds(its, 3);
    }
    for (uint32_t worker = 0; worker < its->workers; worker++)
        assert_int_equal(its->members[worker].begun, 1);
}

/* One of another job makes them begin anew. */
CLUSTER(test_another_job)
{
    cluster_init(its);
    cluster_begin(its);
    cluster_exact_rounds(its, 3);
    tarry_runtime_free(its->server, false);
    its->settings.job = "another one";
    its->settings.job_size = sizeof("another one");
    its->settings.server.stripe_length = 50;
    cluster_begin_server(its);
    cluster_wait(its, its->workers);
    cluster_exact_rounds(its, 3);
    for (uint32_t worker = 0; worker < its->workers; worker++)
        assert_int_equal(its->members[worker].begun, 2);
}

/* ---- what a worker can't do ---- */

static void restart_with(cluster *its, const char *job)
{
    tarry_runtime_free(its->server, false);
    its->settings.job = job;
    its->settings.job_size = sizeof("job A");
    cluster_begin_server(its);
    cluster_wait(its, 0);
}

static void await_connections(cluster *its, uint32_t worker, uint32_t count)
{
    pthread_mutex_lock(&its->lock);
    while (its->members[worker].connections < count)
        cluster_await_change(its);
    pthread_mutex_unlock(&its->lock);
}

/* A plan that comes before the job that was sent with the one before is looked at: that goes on
 * with it. A worker looks at nothing new while it waits for a computation to end; whether that is
 * so with job B, which comes behind WELCOME, or only with C, depends on the machine. */
CLUSTER(test_offer_replaced)
{
    random_stream stream = random_stream_make(test_seed("tcp offer", 3), RANDOM_TEST, 0, 0);
    cluster_init(its);
    its->settings.job = "job A";
    its->settings.job_size = sizeof("job A");
    cluster_begin(its);
    cluster_hold(its, 0, 0);
    do
        cluster_exact_rounds(its, 1);
    while (!cluster_is_held(its, 0));
    restart_with(its, "job B");
    await_connections(its, 0, 2);
    usleep(20000);
    restart_with(its, "job C");
    await_connections(its, 0, 3);
    usleep(20000);
    replan(its, &stream);
    cluster_release(its);
    cluster_wait(its, its->workers);
    cluster_exact_rounds(its, 2);
    assert_in_range(its->members[0].begun, 2, 3);
    assert_string_equal(its->members[0].job, "job C");
}

CLUSTER(test_refused)
{
    cluster_init(its);
    cluster_begin_server(its);
    cluster_wait(its, 0);
    cluster_start(its, 9); /* of six */
    cluster_join(its, 9);
    assert_int_equal(its->members[9].result, TARRY_ERROR_STATE);
    assert_non_null(strstr(its->members[9].diagnostic.text, "no such worker"));
}

TEST(test_patience)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = "127.0.0.1:1"; /* nobody listens there */
    settings.security.insecure = true;
    settings.compute = no_compute;
    settings.patience_ns = 300000000;
    tarry_tcp_worker *worker;
    tarry_diagnostic why;
    assert_ok(tarry_tcp_worker_create(&settings, NULL, &worker, &why));
    assert_int_equal(tarry_tcp_worker_run(worker, &why), TARRY_ERROR_SYSTEM);
    assert_non_null(strstr(why.text, "127.0.0.1:1: no connection for"));
    assert_int_equal(tarry_tcp_worker_run(worker, &why), TARRY_ERROR_STATE);
    tarry_tcp_worker_free(worker);
}

static int create(void *user, const tarry_allocator *allocator)
{
    tarry_tcp_worker *worker;
    int error = tarry_tcp_worker_create(user, allocator, &worker, NULL);
    if (error == TARRY_OK)
        tarry_tcp_worker_free(worker);
    return error;
}

TEST(test_creation_without_memory)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = "127.0.0.1:1";
    settings.security.insecure = true;
    settings.compute = no_compute;
    assert_int_equal(fail_each_allocation(create, &settings), 3);
}

TEST(test_settings)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker *worker;
    tarry_diagnostic why;
    tarry_tcp_worker_settings_init(&settings);
    settings.compute = no_compute;
    assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &worker, &why), TARRY_ERROR_ARGUMENT);
    settings.connect = "nowhere";
    assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &worker, &why), TARRY_ERROR_ARGUMENT);
    settings.connect = "192.0.2.1:7";
    char long_name[TARRY_RACK_BYTES + 2] = {0};
    memset(long_name, 'x', TARRY_RACK_BYTES + 1);
    const char *const no_names[] = {"a b", "a\n", "\xc3\xa4", long_name};
    for (size_t i = 0; i < sizeof(no_names) / sizeof(no_names[0]); i++) {
        settings.rack = no_names[i];
        assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &worker, &why),
                         TARRY_ERROR_ARGUMENT);
        assert_string_equal(why.text, "network worker: its rack is no name");
    }
    settings.rack = long_name + 1;
    for (int insecure = 0; insecure <= 1; insecure++) {
        settings.security.insecure = insecure;
        assert_ok(tarry_tcp_worker_create(&settings, NULL, &worker, &why));
        assert_int_equal(tarry_tcp_worker_run(worker, &why), TARRY_ERROR_ARGUMENT);
        assert_non_null(strstr(why.text, insecure ? "plain text is for" : "needs credentials"));
        tarry_tcp_worker_free(worker);
    }
    settings.security.insecure = false;
    settings.security.credentials = "/nowhere";
    assert_int_equal(tarry_tcp_worker_create(&settings, NULL, &worker, &why), TARRY_ERROR_FILE);
}

/* Too few workers are left for a round; with patience, it is another one that ends well. */
static void begin_without_one(cluster *its, uint64_t patience_ns)
{
    cluster_init(its);
    its->plan_settings.replication = 1;
    its->workers = its->plan_settings.workers - 1;
    its->settings.patience_ns = patience_ns;
    cluster_begin(its);
}

CLUSTER(test_too_few_workers)
{
    tarry_round_result result;
    tarry_diagnostic why;
    begin_without_one(its, 1);
    assert_int_equal(cluster_round(its, &result, &why), TARRY_ERROR_COVERAGE);
    assert_int_equal(result.workers_lost, 1);
    assert_non_null(strstr(why.text, "no worker that is left can give chunks"));
    cluster_end(its);

    begin_without_one(its, UINT64_C(600000000000));
    cluster_call call;
    cluster_begin_round(its, &call);
    cluster_start(its, its->workers++);
    cluster_end_round(&call);
    assert_ok(call.error);
    assert_true(call.result.exact);
    assert_true(cluster_error(its) < cluster_tolerance(its));

    /* Nobody is lacking any more, and one goes for good: it can be interrupted. */
    tarry_tcp_worker_leave(its->members[0].worker, 0);
    cluster_join(its, 0);
    cluster_begin_round(its, &call);
    tarry_runtime_interrupt(its->server);
    cluster_end_round(&call);
    assert_int_equal(call.error, TARRY_ERROR_INTERRUPTED);
}
