/* SPDX-License-Identifier: Apache-2.0 */
/* One job over three transports: memory, loopback TCP, and that of examples/pipes.c, whose job it
 * is. With `reproducible`, the sums are the same to the bit. One worker is slow; another one dies
 * in the middle of a round: a process is killed, and what a thread computes fails from then on. */
#define main pipes_main
static int pipes_main(int count, char **words);
#include "../../examples/pipes.c"
#undef main

#include "test.h"

#define WAIT_NS UINT64_C(60000000000)

enum { ADDRESS = 64 };

typedef struct job {
    tarry_plan *plan;
    tarry_server_settings server;
} job;

/* The sums of all rounds, by transport. */
static float over_memory[ROUNDS][DIMENSION], over_tcp[ROUNDS][DIMENSION],
    over_pipes[ROUNDS][DIMENSION];

static void set_up(job *its)
{
    tarry_diagnostic why;
    tarry_server_settings_init(&its->server);
    its->server.reproducible = true;
    its->server.silence_ns = WAIT_NS; /* the machine may stall */
    its->plan = make_plan(&why);
    assert_non_null(its->plan);
}

static void run_rounds(tarry_runtime *runtime, float sums[ROUNDS][DIMENSION])
{
    for (int round = 0; round < ROUNDS; round++) {
        tarry_diagnostic why = {""};
        assert_ok_or(why, run_round(runtime, round, sums[round], &why));
        assert_true(error_of(round, sums[round]) < 0.01);
    }
    tarry_runtime_free(runtime, true);
}

/* ---- memory ---- */

static int compute_or_fail(void *user, const tarry_task *task)
{
    return is_deadly(task) ? -1 : compute(user, task);
}

static void run_over_memory(const job *its)
{
    tarry_runtime *runtime;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.server = its->server;
    settings.compute = compute_or_fail;
    assert_ok(tarry_local_create(its->plan, &settings, NULL, &runtime, NULL));
    run_rounds(runtime, over_memory);
}

/* ---- loopback TCP ---- */

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
    settings.compute = compute_or_die;
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
    snprintf(address, sizeof(address), "%s", tarry_runtime_address(runtime, 0));
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        assert_true(move_all(fds[worker], address, sizeof(address), true));
        close(fds[worker]);
    }
    assert_ok(tarry_runtime_wait(runtime, WORKERS, WAIT_NS, NULL));
    run_rounds(runtime, over_tcp);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        int status = -1;
        assert_int_equal(waitpid(children[worker], &status, 0), children[worker]);
        assert_int_equal(WIFSIGNALED(status), worker == MORTAL);
        assert_true(worker == MORTAL || WEXITSTATUS(status) == 0);
    }
}

/* ---- pipes ---- */

static void run_over_pipes(const job *its)
{
    tarry_runtime *runtime;
    pipes own;
    assert_ok(make_runtime(&own, its->plan, &its->server, &runtime, NULL));
    run_rounds(runtime, over_pipes);
}

TEST(sums_are_the_same_bits_over_all_transports)
{
    job its;
    set_up(&its);
    run_over_pipes(&its);
    run_over_tcp(&its);
    run_over_memory(&its);
    assert_memory_equal(over_memory, over_pipes, sizeof(over_pipes));
    assert_memory_equal(over_tcp, over_pipes, sizeof(over_pipes));
    tarry_plan_free(its.plan);
}

TEST(the_example_is_right_about_itself)
{
    char *words[] = {"pipes", NULL};
    assert_int_equal(pipes_main(1, words), 0);
}
