/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_Allreduce of float32, timed as `tarry-bench allreduce` times its sums; bench/allreduce.py
 * compiles and runs it. Usage: allreduce_mpi DIMENSION TIMES; prints the seconds of each sum, and
 * ends with 1 if a sum is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM = 2 };

static float number_of(int rank, size_t x)
{
    return (float)(x % 61 + (size_t)rank % 7);
}

static int holds(const float *sum, size_t dimension, int count)
{
    for (size_t x = 0; x < dimension; x++) {
        float expected = 0;
        for (int i = 0; i < count; i++)
            expected += number_of(i, x);
        if (sum[x] < expected || sum[x] > expected)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    int rank, count, good = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    size_t dimension = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1;
    int times = argc > 2 ? atoi(argv[2]) : 1;
    float *part = malloc(dimension * sizeof(*part)), *sum = malloc(dimension * sizeof(*sum));
    if (part == NULL || sum == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t x = 0; x < dimension; x++)
        part[x] = number_of(rank, x);
    for (int time = 0; time < WARM + times; time++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double ours[2],
            all[2]; /* minus the begin, and the end: the monotonic clock of one machine */
        ours[0] = -MPI_Wtime();
        MPI_Allreduce(part, sum, (int)dimension, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        ours[1] = MPI_Wtime();
        MPI_Allreduce(ours, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (time == 0)
            good = holds(sum, dimension, count);
        if (rank == 0 && time >= WARM)
            printf("%.9f\n", all[0] + all[1]);
    }
    good = good && holds(sum, dimension, count);
    MPI_Finalize();
    return !good;
}
