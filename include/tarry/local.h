/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded runtime: the server in the caller's thread, every worker as two threads of this
 * process (one computes, one talks), so that a worker in the middle of a chunk still answers the
 * signal at once.
 */
#ifndef TARRY_LOCAL_H
#define TARRY_LOCAL_H

#include <tarry/compute.h>
#include <tarry/engine.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_local_settings {
    size_t size;                      /* of this structure: its init sets it */
    size_t parameters;                /* numbers in the parameter vector, >= 1 */
    size_t dimension;                 /* d: numbers in a gradient, >= 1 */
    tarry_compute *compute;           /* NULL: tasks are taken (tarry_local_take) */
    void *user;                       /* of compute */
    const tarry_straggler *straggler; /* NULL for none; borrowed, must outlive the runtime */
    tarry_server_settings
        server; /* its dimension is set from that above; stripe_length 0: chosen */
    /* What tarry_runtime_checkpoint wrote for the same plan and settings, to go on from; borrowed
     * for the call. NULL: rounds count from 0. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
    /*
     * server.sum TARRY_SUM_EVERYWHERE: what each worker steps, one per worker of the plan; copied,
     * and called by the worker's threads until the runtime is freed. `last`: the sum that each has
     * stepped on; NULL: all have the first state.
     */
    const tarry_replica *replicas;
    const tarry_sum_id *last;
    /* The same: makes a worker's engine, which the runtime frees. NULL: they sum in shared memory.
     */
    int (*engine)(void *engine_user, uint32_t worker, tarry_engine **engine);
    void *engine_user;
    tarry_sum_log log; /* the same */
    /* With server.compress_down, and a checkpoint: what tarry_runtime_view gave then; borrowed for
     * the call. numbers NULL: workers begin with the parameters as they are. */
    tarry_view view;
    /* The owners of the workers' vectors, one per worker of the plan; copied, the owners are
     * borrowed and must outlive the runtime. NULL: host memory. */
    tarry_vectors *const *vectors;
} tarry_local_settings;

/* No straggler, tarry_server_settings_init, everything else 0. */
#define tarry_local_settings_init(settings)                                                        \
    tarry_local_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_local_settings_init_sized(tarry_local_settings *settings, size_t size);

/*
 * Starts the workers of `plan`, which is borrowed and must outlive the runtime. Memory: sum of all
 * loads times d for the finished gradients, twice that with TARRY_FILL_STALE, and m * d / l for the
 * parts (the least l), or, with TARRY_KEEP_CREDITED, (ahead + 2) m d at most for both, of which
 * workers write only to what the answers make them use; one parameter vector, and another one for
 * each earlier round in which a compute function that nobody needs any more still runs, m + 2 at
 * most. tarry_runtime_free waits for compute functions in progress, and for tasks that were taken
 * to be given back. With compress_down and the sum at the server two vectors more. Errors:
 * ARGUMENT, NO_MEMORY, SYSTEM, FORMAT (a checkpoint that is none, or of another plan or settings).
 */
TARRY_API int tarry_local_create(const tarry_plan *plan, const tarry_local_settings *settings,
                                 const tarry_allocator *allocator, tarry_runtime **local,
                                 tarry_diagnostic *diagnostic);
/*
 * Without a compute function: the next task of `worker`, in the thread that calls, which may be
 * another one each time; waits for it. *task is NULL once the runtime was told to dismiss its
 * workers. Errors: STATE (none came within wait_ns, TARRY_NEVER: no limit; or the worker's task
 * before was not given back).
 */
TARRY_API int tarry_local_take(tarry_runtime *local, uint32_t worker, uint64_t wait_ns,
                               const tarry_task **task);
/* From now on workers compute nothing: there are no tasks to take, and taken ones are cancelled.
 * For the end, after the last round. Any thread. */
TARRY_API void tarry_local_dismiss(tarry_runtime *local);

#ifdef __cplusplus
}
#endif

#endif
