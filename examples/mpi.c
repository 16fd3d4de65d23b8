/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program whose ranks are workers: gradient descent. mpirun -n 4 example-mpi */
#include <stdio.h>
#include <string.h>
#include <tarry/mpi.h>

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

int main(int argc, char **argv)
{
    static float model[DIMENSION]; /* the same at all ranks after the same step */
    int level, ranks, done = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tarry_diagnostic why = {""};
    tarry_plan *plan = NULL;
    tarry_mpi *all = NULL;
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = (uint32_t)ranks;
    tarry_mpi_settings settings;
    tarry_mpi_settings_init(&settings);
    settings.parameters = settings.dimension = DIMENSION;
    settings.compute = compute;
    settings.replica = (tarry_replica){model, step, parameters, state_size, save, load};
    int error = tarry_plan_create(&wanted, NULL, &plan, &why);
    error = error ? error : tarry_mpi_create(MPI_COMM_WORLD, plan, &settings, NULL, &all, &why);
    tarry_runtime *runtime = error == TARRY_OK ? tarry_mpi_runtime(all) : NULL; /* at rank 0 */
    if (error == TARRY_OK)
        error = runtime != NULL ? tarry_runtime_wait(runtime, (uint32_t)ranks, TARRY_NEVER, &why)
                                : tarry_mpi_work(all, &why);
    for (tarry_round_result result; done < STEPS && runtime != NULL && error == TARRY_OK; done++)
        error = tarry_runtime_round(runtime, NULL, NULL, &result, &why);
    if (!tarry_mpi_free(all, true)) /* some ranks are dead */
        tarry_mpi_exit(error != TARRY_OK);
    printf("%g %s\n", (double)model[0], why.text);
    tarry_plan_free(plan);
    MPI_Finalize();
    return error != TARRY_OK;
}
