/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of an MPI program as workers that sum among themselves (libtarry-mpi). Rank 0 is the server
 * and a worker, too; all that is said and summed goes over MPI, so that no port is needed. Where
 * all ranks are on one machine sums pass through shared memory. docs/mpi.md says what happens when
 * ranks are slow, stopped or dead, by MPI library.
 *
 * MPI_THREAD_FUNNELED is enough: MPI is called by the thread that calls the functions of this
 * header and those of the runtime, and it must be the one that initialized MPI. After
 * tarry_mpi_create there are no collective calls and none that block on another rank, but for a
 * bounded time in tarry_mpi_free.
 */
#ifndef TARRY_MPI_H
#define TARRY_MPI_H

#include <mpi.h>

#include <tarry/compute.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_mpi tarry_mpi;

/* The same at all ranks, but for what is said to be rank 0's. */
typedef struct tarry_mpi_settings {
    size_t size;                      /* of this structure: its init sets it */
    size_t parameters, dimension;     /* of the vectors: >= 1 numbers each */
    tarry_server_settings server;     /* its dimension is set from that above, and its sum is
                                         TARRY_SUM_EVERYWHERE */
    tarry_compute *compute;           /* in a thread of its own, which must not call MPI */
    void *user;                       /* of compute */
    const tarry_straggler *straggler; /* NULL for none; borrowed, must outlive the ranks */
    tarry_replica replica;            /* of this rank; called by threads of the worker */
    tarry_sum_id last; /* that this rank has stepped on; step 0: it has the first state. Ranks that
                          are behind load the state of one who is not */
    /* Rank 0's: as tarry_local_settings has them. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
    tarry_sum_log log;
    bool no_shared_memory; /* sums over MPI on one machine, too */
    /* A rank that has heard nothing of rank 0 for so long gives up, TARRY_NEVER: never. Rank 0
     * speaks only within calls of its runtime: it must be longer than rank 0 is ever away. */
    uint64_t patience_ns;
} tarry_mpi_settings;

/* tarry_server_settings_init with TARRY_SUM_EVERYWHERE, patience TARRY_NEVER, everything else 0. */
#define tarry_mpi_settings_init(settings)                                                          \
    tarry_mpi_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_mpi_settings_init_sized(tarry_mpi_settings *settings, size_t size);

/*
 * Collective over `comm`, whose ranks are the plan's workers, one each; `plan` is the same at all
 * ranks, borrowed, and must outlive the ranks. Errors, the same at all ranks: ARGUMENT (MPI is not
 * initialized or has no MPI_THREAD_FUNNELED, ranks that are not as many as the plan's workers, or
 * have other plans or settings), NO_MEMORY, SYSTEM (MPI, threads), FORMAT (the checkpoint).
 */
TARRY_API int tarry_mpi_create(MPI_Comm comm, const tarry_plan *plan,
                               const tarry_mpi_settings *settings, const tarry_allocator *allocator,
                               tarry_mpi **out, tarry_diagnostic *diagnostic);

/* Rank 0's runtime, as any other but that plans stay; it belongs to `ranks`, and waits for them
 * (tarry_runtime_wait) before its first round. NULL at other ranks.
 */
TARRY_API tarry_runtime *tarry_mpi_runtime(const tarry_mpi *ranks);
/* What sums: "direct" (shared memory) or "mpi". */
TARRY_API const char *tarry_mpi_engine(const tarry_mpi *ranks);

/* At all ranks but 0: works until rank 0 ends the run. Errors: what the replica gave, STATE (rank 0
 * was not heard of within the patience). */
TARRY_API int tarry_mpi_work(tarry_mpi *ranks, tarry_diagnostic *diagnostic);

/*
 * Ends the run, at all ranks: rank 0 calls it when it needs no more rounds, others after
 * tarry_mpi_work. `finished`: as tarry_runtime_free has it; ranks that are there have stepped on
 * the last sum then. NULL is allowed. True: all ranks are there, and MPI_Finalize can be called.
 * False: some are dead, and MPI_Finalize may wait for them without end: leave by tarry_mpi_exit.
 */
TARRY_API bool tarry_mpi_free(tarry_mpi *ranks, bool finished);
/* Ends the process without MPI_Finalize, with all output streams flushed. */
TARRY_API _Noreturn void tarry_mpi_exit(int status);

#ifdef __cplusplus
}
#endif

#endif
