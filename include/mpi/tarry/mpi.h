/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over MPI (libtarry-mpi): an engine of sums (tarry/engine.h) for workers that are ranks of an
 * MPI program. It carries sums alone. tarry/tcp.h has the coordinator and the workers, as
 * everywhere else: rank 0 creates the server, tells the others its address by MPI_Bcast, and each
 * rank runs a worker with this engine. examples/mpi.c is a whole program. See docs/mpi.md for what
 * happens when ranks are slow, stopped or dead, by MPI library.
 *
 * Threads: a thread of the engine calls MPI from the worker's first sum on until tarry_mpi_free
 * returns. MPI_THREAD_SERIALIZED is enough for a program that does not call MPI during that time;
 * one that does needs MPI_THREAD_MULTIPLE.
 */
#ifndef TARRY_MPI_H
#define TARRY_MPI_H

#include <mpi.h>

#include <tarry/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_mpi tarry_mpi;

/*
 * Collective over `comm`, which is only used during the call; the engine has a duplicate. Errors,
 * the same at all ranks: ARGUMENT (MPI is not initialized, or with a thread level below
 * MPI_THREAD_SERIALIZED), NO_MEMORY, SYSTEM (MPI).
 */
TARRY_API int tarry_mpi_create(MPI_Comm comm, tarry_mpi **out, tarry_diagnostic *diagnostic);

/*
 * The engine, "mpi", for tarry_tcp_worker_settings: one worker's at a time. It belongs to `ranks`,
 * and its `free` is not called. Workers may have any ids: the engine's address is its rank.
 */
TARRY_API tarry_engine *tarry_mpi_engine(const tarry_mpi *ranks);

/*
 * Collective as far as ranks are alive, after the rank's worker was freed. `finished`: the run is
 * over, or its coordinator out of reach (tarry_tcp_worker_run gave SYSTEM); waits 5 seconds at most
 * for the other ranks. Otherwise this rank's worker has ended before the run, and the call waits
 * until another rank is finished: a launcher may end the whole job when a rank ends before it. NULL
 * is allowed. True: all ranks are there, and MPI_Finalize can be called. False: some are dead, and
 * MPI_Finalize may wait for them without end: leave by tarry_mpi_exit.
 */
TARRY_API bool tarry_mpi_free(tarry_mpi *ranks, bool finished);
/* Ends the process without MPI_Finalize, with all output streams flushed. */
TARRY_API _Noreturn void tarry_mpi_exit(int status);

#ifdef __cplusplus
}
#endif

#endif
