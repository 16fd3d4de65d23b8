/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program whose ranks are workers: gradient descent. mpirun -n 4 example-mpi */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tarry/mpi.h>
#include <tarry/tcp.h>

enum { DIMENSION = 1000, CHUNKS = 8 /* of a plan */, STEPS = 20 };

/* The gradient of chunk c pulls each parameter to c. A thread of the library calls it: no MPI. */
static int compute(void *user, const tarry_task *task)
{
    (void)user;
    for (size_t i = 0; i < task->dimension; i++)
        task->gradient[i] = task->parameters[i] - (float)task->chunk;
    return 0;
}

static int step(void *model, uint64_t number, const float *sum)
{
    for (size_t i = 0; i < DIMENSION && number > 0; i++) /* it counts from 1 */
        ((float *)model)[i] -= 0.5F / CHUNKS * sum[i];
    return TARRY_OK;
}

static int parameters(void *model, float *into)
{
    memcpy(into, model, DIMENSION * sizeof(float));
    return TARRY_OK;
}

/* How a rank that was stopped catches up: it loads what another one saves. */
static uint64_t state_size(void *model)
{
    return model != NULL ? DIMENSION * sizeof(float) : 0;
}

static int save(void *model, uint64_t first, void *bytes, size_t size)
{
    memcpy(bytes, (char *)model + first, size);
    return TARRY_OK;
}

static int load(void *model, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    memcpy((char *)model + first, bytes, size);
    return total == state_size(model) ? TARRY_OK : TARRY_ERROR_FORMAT;
}

static int begin(void *model, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const tarry_replica replica = {model, step, parameters, state_size, save, load};
    (void)job, (void)data, (void)diagnostic;
    tarry_tcp_worker_replica(worker, &replica, NULL);
    return TARRY_OK;
}

static void *work(void *worker)
{
    tarry_diagnostic why = {""};
    if (tarry_tcp_worker_run(worker, &why) != TARRY_OK)
        fprintf(stderr, "%s\n", why.text);
    return NULL;
}

/* This is for one machine. On several, rank 0 listens at an address that the others reach, and both
 * have .security.credentials, folders that `tarry keys` made. */
static int coordinate(const tarry_plan *plan, tarry_runtime **out, char address[64])
{
    const char *listen[] = {"127.0.0.1:0"};
    tarry_diagnostic why = {""};
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.security.insecure = true;
    settings.parameters = settings.dimension = DIMENSION;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    if (tarry_tcp_server_create(plan, &settings, NULL, out, &why) != TARRY_OK) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    snprintf(address, 64, "%s", tarry_runtime_address(*out, 0));
    return 0;
}

static int run_rounds(tarry_runtime *runtime, uint32_t ranks)
{
    tarry_diagnostic why = {""};
    tarry_round_result result;
    int error = tarry_runtime_wait(runtime, ranks, TARRY_NEVER, &why);
    for (int done = 0; done < STEPS && error == TARRY_OK; done++)
        error = tarry_runtime_round(runtime, NULL, NULL, &result, &why);
    if (error == TARRY_OK) /* until all have stepped on the last sum */
        tarry_runtime_wait(runtime, ranks, UINT64_C(10000000000), NULL);
    if (error != TARRY_OK)
        fprintf(stderr, "%s\n", why.text);
    return error != TARRY_OK;
}

int main(int argc, char **argv)
{
    static float model[DIMENSION]; /* the same at all ranks after the same step */
    char address[64] = "";
    int level, rank, ranks, failed = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tarry_plan *plan = NULL;
    tarry_mpi *all = NULL;
    tarry_runtime *runtime = NULL; /* at rank 0 */
    tarry_tcp_worker *worker = NULL;
    tarry_diagnostic why = {""};
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = (uint32_t)ranks;
    if (rank == 0)
        failed =
            tarry_plan_create(&wanted, NULL, &plan, &why) || coordinate(plan, &runtime, address);
    MPI_Bcast(address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD);

    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = address;
    settings.security.insecure = true;
    settings.worker = (uint32_t)rank;
    settings.begin = begin;
    settings.compute = compute;
    settings.user = model;
    if (!failed)
        failed = tarry_mpi_create(MPI_COMM_WORLD, &all, &why);
    if (!failed) {
        settings.engine = tarry_mpi_engine(all);
        failed = tarry_tcp_worker_create(&settings, NULL, &worker, &why);
    }
    pthread_t thread; /* of rank 0's worker: its coordinator has this one */
    if (!failed && rank == 0)
        failed = pthread_create(&thread, NULL, work, worker);
    if (failed) {
        fprintf(stderr, "%s\n", why.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        failed = run_rounds(runtime, (uint32_t)ranks);
        tarry_runtime_free(runtime, true);
        pthread_join(thread, NULL);
    } else {
        work(worker);
    }
    tarry_tcp_worker_free(worker);
    tarry_plan_free(plan);
    printf("%g\n", (double)model[0]);
    if (!tarry_mpi_free(all, true)) /* some ranks are dead */
        tarry_mpi_exit(failed);
    MPI_Finalize();
    return failed;
}
