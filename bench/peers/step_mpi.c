/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of ranks whose gradients take a time that is slept, beside MPI's own collectives with the
 * same sleeps; bench/mpi.py runs it. Usage: step-mpi DIMENSION STEPS SECONDS PIECES SLOW OVER.
 * SECONDS is what a rank sleeps per step where all are alike; SLOW: the last rank takes so many
 * times as long; OVER: mpi, or shared. Prints the seconds of each step: "tarry", "allreduce" and
 * "reduce", and of "bare", MPI_Allreduce alone.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tarry/mpi.h>
#include <tarry/tcp.h>

enum { WARM = 2, ADDRESS_SIZE = 64 };

static size_t dimension;
static double seconds_per_step, slow;
static int steps, pieces, rank, ranks;

static void nap(double seconds)
{
    const struct timespec pause = {(time_t)seconds,
                                   (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&pause, NULL);
}

/* MPI_Wtime is a call of MPI, whose thread is another one during sums. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double own_factor(void)
{
    return rank == ranks - 1 ? slow : 1;
}

/* A chunk is a rank's share of the work. */
static int compute(void *user, const tarry_task *task)
{
    (void)user;
    nap(seconds_per_step / pieces * own_factor());
    memset(task->gradient, 0, task->dimension * sizeof(float));
    task->gradient[0] = 1;
    return 0;
}

static int step(void *user, uint64_t number, const float *sum)
{
    (void)user;
    (void)number;
    return sum[0] > 0 ? TARRY_OK : TARRY_ERROR_NUMERICAL;
}

static uint64_t state_size(void *user)
{
    (void)user;
    return 1;
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    (void)user;
    (void)first;
    memset(bytes, 0, size);
    return TARRY_OK;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    (void)user;
    (void)total;
    (void)first;
    (void)bytes;
    (void)size;
    return TARRY_OK;
}

/* From one step's end to the next one's. */
static void tell(const char *what, int number, double *since)
{
    double now = seconds();
    if (rank == 0 && number >= WARM)
        printf("%s %.6f\n", what, now - *since);
    *since = now;
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const tarry_replica replica = {NULL, step, NULL, state_size, save, load};
    (void)user;
    (void)job;
    (void)data;
    (void)diagnostic;
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static int coordinate(const tarry_plan *plan, tarry_runtime **out, char address[ADDRESS_SIZE],
                      tarry_diagnostic *why)
{
    const char *listen[] = {"127.0.0.1:0"};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = settings.dimension = dimension;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settings.server.pick = pieces > 1 ? TARRY_PICK_SHARE : TARRY_PICK_PLAN;
    int error = tarry_tcp_server_create(plan, &settings, NULL, out, why);
    if (error == TARRY_OK)
        snprintf(address, ADDRESS_SIZE, "%s", tarry_runtime_address(*out, 0));
    return error;
}

static int run_rounds(tarry_runtime *runtime, tarry_diagnostic *why)
{
    int error = tarry_runtime_wait(runtime, (uint32_t)ranks, TARRY_NEVER, why);
    double since = seconds();
    for (int number = 0; number < WARM + steps && error == TARRY_OK; number++) {
        tarry_round_result result;
        error = tarry_runtime_round(runtime, NULL, NULL, &result, why);
        tell(result.exact ? "tarry" : "tarry-not-exact", number, &since);
    }
    return error;
}

static void *work(void *worker)
{
    tarry_diagnostic why = {""};
    if (tarry_tcp_worker_run(worker, &why) != TARRY_OK)
        fprintf(stderr, "rank %d: %s\n", rank, why.text);
    return NULL;
}

static int run_worker(tarry_runtime *runtime, tarry_tcp_worker *worker, tarry_diagnostic *why)
{
    pthread_t thread;
    if (runtime == NULL) {
        work(worker);
        return TARRY_OK;
    }
    if (pthread_create(&thread, NULL, work, worker) != 0)
        return TARRY_ERROR_SYSTEM;
    int error = run_rounds(runtime, why);
    tarry_runtime_free(runtime, true);
    pthread_join(thread, NULL);
    return error;
}

/* shared: Tarry's own engine; the other way sums go over MPI. */
static int run_tarry(const char *over)
{
    char address[ADDRESS_SIZE] = "";
    tarry_plan *plan = NULL;
    tarry_mpi *all = NULL;
    tarry_runtime *runtime = NULL;
    tarry_tcp_worker *worker = NULL;
    tarry_diagnostic why = {""};
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = wanted.chunks = (uint32_t)ranks;
    wanted.pieces = (uint32_t)pieces;
    wanted.replication = slow > 1 || pieces > 1 ? 3 : 1;
    int error = tarry_plan_create(&wanted, NULL, &plan, &why);
    if (error == TARRY_OK && rank == 0)
        error = coordinate(plan, &runtime, address, &why);
    MPI_Bcast(address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (address[0] == '\0') {
        fprintf(stderr, "rank %d: %s\n", rank, why.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = address;
    settings.security.insecure = true;
    settings.worker = (uint32_t)rank;
    settings.begin = begin;
    settings.compute = compute;
    error = error ? error : tarry_mpi_create(MPI_COMM_WORLD, &all, &why);
    if (error == TARRY_OK && strcmp(over, "mpi") == 0)
        settings.engine = tarry_mpi_engine(all);
    error = error ? error : tarry_tcp_worker_create(&settings, NULL, &worker, &why);
    error = error ? error : run_worker(runtime, worker, &why);
    if (error != TARRY_OK)
        fprintf(stderr, "rank %d: %s\n", rank, why.text);
    tarry_tcp_worker_free(worker);
    bool whole = tarry_mpi_free(all, true);
    tarry_plan_free(plan);
    return error != TARRY_OK || !whole;
}

static int run_collective(const char *what, double sleeps)
{
    float *part = calloc(dimension, sizeof(*part)), *sum = calloc(dimension, sizeof(*sum));
    if (part == NULL || sum == NULL)
        return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double since = seconds();
    for (int number = 0; number < WARM + steps; number++) {
        nap(sleeps * own_factor());
        if (strcmp(what, "reduce") == 0) {
            MPI_Reduce(part, sum, (int)dimension, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
            MPI_Bcast(sum, (int)dimension, MPI_FLOAT, 0, MPI_COMM_WORLD);
        } else {
            MPI_Allreduce(part, sum, (int)dimension, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        tell(what, number, &since);
    }
    free(sum);
    free(part);
    return 0;
}

int main(int argc, char **argv)
{
    int level;
    if (argc != 7)
        return 2;
    dimension = (size_t)strtoull(argv[1], NULL, 10);
    steps = atoi(argv[2]);
    seconds_per_step = atof(argv[3]);
    pieces = atoi(argv[4]);
    slow = atof(argv[5]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int failed = run_tarry(argv[6]);
    int wrong = 0;
    MPI_Allreduce(&failed, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!wrong)
        wrong = run_collective("allreduce", seconds_per_step) ||
                run_collective("reduce", seconds_per_step) || run_collective("bare", 0);
    MPI_Finalize();
    return wrong;
}
