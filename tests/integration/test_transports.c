/* SPDX-License-Identifier: Apache-2.0 */
/* One job over three transports: memory, loopback TCP, and that of examples/pipes.c, whose job it
 * is. With `reproducible`, the sums are the same to the bit. One worker is slow; another one dies
 * in the middle of a round: a process is killed, and what a thread computes fails from then on. */
#define main pipes_main
static int pipes_main(int count, char **words);
#include "../../examples/pipes.c"
#undef main

#include <tarry/direct.h>

#include "test.h"

#define WAIT_NS UINT64_C(60000000000)

enum { ADDRESS = 64 };

typedef struct job {
    tarry_plan *plan;
    tarry_server_settings server;
} job;

/* What is the same over all transports: sums, or the digests of those that workers have. */
typedef struct outcome {
    float sums[ROUNDS][DIMENSION];
    uint64_t digests[ROUNDS];
} outcome;

static outcome over_memory, over_tcp, over_pipes;

static bool is_everywhere(const job *its)
{
    return its->server.sum == TARRY_SUM_EVERYWHERE;
}

static void set_up(job *its, tarry_sum_place place)
{
    tarry_diagnostic why;
    tarry_server_settings_init(&its->server);
    its->server.sum = place;
    its->server.reproducible = true;
    its->server.silence_ns = WAIT_NS; /* the machine may stall */
    its->plan = make_plan(&why);
    assert_non_null(its->plan);
    memset(&over_memory, 0, sizeof(over_memory));
    memset(&over_tcp, 0, sizeof(over_tcp));
    memset(&over_pipes, 0, sizeof(over_pipes));
}

static void run_rounds(const job *its, tarry_runtime *runtime, outcome *out)
{
    for (int round = 0; round < ROUNDS; round++) {
        tarry_diagnostic why = {""};
        tarry_round_result result;
        if (is_everywhere(its)) {
            assert_ok_or(why, tarry_runtime_round(runtime, NULL, NULL, &result, &why));
            assert_int_equal(result.sum.step, round + 1);
            out->digests[round] = result.sum.digest;
        } else {
            assert_ok_or(why, run_round(runtime, round, out->sums[round], &why));
            assert_true(error_of(round, out->sums[round]) < 0.01);
        }
    }
    tarry_runtime_free(runtime, true);
}

/* ---- what a worker steps, where everyone gets the sum ---- */

static int step(void *user, uint64_t step, const float *sum)
{
    float *parameters = user;
    (void)step;
    for (int i = 0; i < DIMENSION; i++)
        parameters[i] -= sum[i] / 16;
    return 0;
}

static int get_parameters(void *user, float *parameters)
{
    memcpy(parameters, user, DIMENSION * sizeof(float));
    return 0;
}

static uint64_t state_size(void *user)
{
    (void)user;
    return DIMENSION * sizeof(float);
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    memcpy(bytes, (const uint8_t *)user + first, size);
    return 0;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    (void)total;
    memcpy((uint8_t *)user + first, bytes, size);
    return 0;
}

static tarry_replica replica_of(uint32_t worker)
{
    static float parameters[WORKERS][DIMENSION];
    for (int i = 0; i < DIMENSION; i++)
        parameters[worker][i] = (float)i;
    return (tarry_replica){.user = parameters[worker],
                           .step = step,
                           .parameters = get_parameters,
                           .state_size = state_size,
                           .save = save,
                           .load = load};
}

/* ---- memory ---- */

static int compute_or_fail(void *user, const tarry_task *task)
{
    return is_deadly(task) ? -1 : compute(user, task);
}

static void run_over_memory(const job *its)
{
    tarry_runtime *runtime;
    tarry_replica replicas[WORKERS];
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = its->server;
    settings.compute = compute_or_fail;
    settings.replicas = replicas;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        replicas[worker] = replica_of(worker);
    assert_ok(tarry_local_create(its->plan, &settings, NULL, &runtime, NULL));
    run_rounds(its, runtime, &over_memory);
}

/* ---- loopback TCP ---- */

static int begin_over_tcp(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *its,
                          uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    (void)user;
    (void)data;
    (void)diagnostic;
    const tarry_replica replica = replica_of(its->worker);
    if (its->sum == TARRY_SUM_EVERYWHERE)
        tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

/* A child, which is told by the pipe where to connect. */
static int work_over_tcp(uint32_t id, int fd)
{
    char address[ADDRESS];
    tarry_tcp_worker *worker;
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = address;
    settings.security.insecure = true;
    settings.worker = id;
    settings.begin = begin_over_tcp;
    settings.compute = compute_or_die;
    settings.share = false;
    if (!move_all(fd, address, sizeof(address), false) ||
        tarry_tcp_worker_create(&settings, NULL, &worker, NULL) != TARRY_OK)
        return 1;
    int error = tarry_tcp_worker_run(worker, NULL);
    tarry_tcp_worker_free(worker);
    return error == TARRY_OK ? 0 : 1;
}

static void start_over_tcp(int fds[WORKERS], pid_t children[WORKERS])
{
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        children[worker] = fork();
        assert_true(children[worker] >= 0);
        if (children[worker] == 0)
            _exit(work_over_tcp(worker, ends[0]));
        close(ends[0]);
        fds[worker] = ends[1];
    }
}

static void run_over_tcp(const job *its)
{
    const char *const listen[] = {"127.0.0.1:0"};
    char address[ADDRESS] = "";
    int fds[WORKERS];
    pid_t children[WORKERS];
    tarry_runtime *runtime;
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = its->server;
    start_over_tcp(fds, children); /* before there are threads */
    assert_ok(tarry_tcp_server_create(its->plan, &settings, NULL, &runtime, NULL));
    assert_ok(tarry_runtime_open(runtime, NULL));
    snprintf(address, sizeof(address), "%s", tarry_runtime_address(runtime, 0));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        assert_true(move_all(fds[worker], address, sizeof(address), true));
        close(fds[worker]);
    }
    assert_ok(tarry_runtime_wait(runtime, WORKERS, WAIT_NS, NULL));
    run_rounds(its, runtime, &over_tcp);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        int status = -1;
        assert_int_equal(waitpid(children[worker], &status, 0), children[worker]);
        assert_int_equal(WIFSIGNALED(status), worker == MORTAL);
        assert_true(worker == MORTAL || WEXITSTATUS(status) == 0);
    }
}

/* ---- pipes ---- */

/* How the engine of a worker is reached. */
typedef struct reached {
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
} reached;

/* No worker misses a sum here, or is behind. */
static void pass_nothing(void *user, uint32_t to, const void *bytes, size_t size)
{
    (void)user;
    (void)to;
    (void)bytes;
    (void)size;
}

/* The example's `work`, for sums everywhere: each child hears first how the others' engines are
 * reached. */
static int work_everywhere(const tarry_plan *plan, const tarry_server_settings *server, uint32_t id,
                           int fd)
{
    static room in;
    head first;
    reached own, all[WORKERS];
    tarry_worker_host *worker;
    tarry_direct_settings sums;
    tarry_worker_host_settings settings;
    tarry_direct_settings_init(&sums);
    sums.no_shared_memory = true;
    tarry_worker_host_settings_init(&settings);
    settings.worker = id;
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = *server;
    settings.compute = compute_or_die;
    settings.send = send_up;
    settings.user = &fd;
    settings.replica = replica_of(id);
    settings.pass = pass_nothing;
    if (tarry_direct_create(&sums, NULL, &settings.engine, NULL) != TARRY_OK)
        return 1;
    settings.engine->methods->address(settings.engine, own.bytes, &own.size);
    if (tarry_worker_host_create(plan, &settings, NULL, &worker, NULL) != TARRY_OK ||
        !move_all(fd, &own, sizeof(own), true) || !move_all(fd, all, sizeof(all), false))
        return 1;
    for (uint32_t other = 0; other < WORKERS; other++)
        if (other != id)
            tarry_worker_host_meet(worker, other, all[other].bytes, all[other].size);
    while (receive_frame(fd, &in, &first))
        if (tarry_worker_host_deliver(worker, in.frame, first.size, in.numbers, first.count) != 0)
            break;
    tarry_worker_host_free(worker);
    settings.engine->methods->free(settings.engine);
    return 0;
}

static void introduce(const pipes *own)
{
    reached all[WORKERS];
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_true(move_all(own->fd[worker], &all[worker], sizeof(all[worker]), false));
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_true(move_all(own->fd[worker], all, sizeof(all), true));
}

static void run_over_pipes(const job *its)
{
    tarry_runtime *runtime;
    pipes own = {.work = is_everywhere(its) ? work_everywhere : work};
    start(&own, its->plan, &its->server);
    if (is_everywhere(its))
        introduce(&own);
    assert_ok(make_runtime(&own, its->plan, &its->server, &runtime, NULL));
    run_rounds(its, runtime, &over_pipes);
}

static void expect_same_bits(tarry_sum_place place)
{
    job its;
    set_up(&its, place);
    run_over_pipes(&its);
    run_over_tcp(&its);
    run_over_memory(&its);
    assert_memory_equal(&over_memory, &over_pipes, sizeof(over_pipes));
    assert_memory_equal(&over_tcp, &over_pipes, sizeof(over_pipes));
    tarry_plan_free(its.plan);
}

TEST(sums_at_the_server_are_the_same_bits_over_all_transports)
{
    expect_same_bits(TARRY_SUM_SERVER);
}

TEST(sums_everywhere_are_the_same_bits_over_all_transports)
{
    expect_same_bits(TARRY_SUM_EVERYWHERE);
}

TEST(the_example_is_right_about_itself)
{
    char *words[] = {"pipes", NULL};
    assert_int_equal(pipes_main(1, words), 0);
}
