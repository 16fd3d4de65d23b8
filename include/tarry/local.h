/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded runtime: the server in the caller's thread, every worker as two threads of this
 * process (one computes, one talks), so that a worker in the middle of a chunk still answers the
 * signal at once.
 */
#ifndef TARRY_LOCAL_H
#define TARRY_LOCAL_H

#include <tarry/compute.h>
#include <tarry/server.h>
#include <tarry/straggler.h>

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
    /* What tarry_local_checkpoint wrote for the same plan and settings, to go on from; borrowed for
     * the call. NULL: rounds count from 0. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
} tarry_local_settings;

typedef struct tarry_local tarry_local;

/* What one worker did so far, over all rounds. */
typedef struct tarry_local_worker {
    uint64_t chunks; /* finished chunks that the server heard of */
    double seconds;  /* spent on these chunks, injected delays included */
    bool present;    /* not lost */
    double pace; /* seconds that a chunk of mean cost takes it, as the server has learned; 0: not
                    known */
} tarry_local_worker;

/* No straggler, tarry_server_settings_init, everything else 0. */
#define tarry_local_settings_init(settings)                                                        \
    tarry_local_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_local_settings_init_sized(tarry_local_settings *settings, size_t size);

/*
 * Starts the workers of `plan`, which is borrowed and must outlive the runtime. Memory: sum of all
 * loads times d for the finished gradients, twice that with TARRY_FILL_STALE, and m * d / l for the
 * parts (the least l), or, with TARRY_KEEP_CREDITED, (ahead + 2) m d at most for both, of which
 * what answers don't make workers use is promised, not written to; one parameter vector, and
 * another one for each round before in which a compute function that is not needed any more still
 * runs, m + 2 at most. Errors: ARGUMENT, NO_MEMORY, SYSTEM, FORMAT (a checkpoint that is none, or
 * of another plan or settings).
 */
TARRY_API int tarry_local_create(const tarry_plan *plan, const tarry_local_settings *settings,
                                 const tarry_allocator *allocator, tarry_local **local,
                                 tarry_diagnostic *diagnostic);
/* Waits until every compute function in progress has returned, and every task that was taken is
 * given back; nobody may take one then (tarry_local_dismiss). NULL is allowed. */
TARRY_API void tarry_local_free(tarry_local *local);

/*
 * Runs one round: sum[0..dimension-1] becomes the sum of the chunks' gradients, or the estimate the
 * stop rule allows. Fills *result on success and for TARRY_ERROR_COVERAGE. Errors: COVERAGE
 * (diagnostic names the chunks), INTERRUPTED (by tarry_local_interrupt; the next call starts a new
 * round), NUMERICAL, NO_MEMORY.
 */
TARRY_API int tarry_local_round(tarry_local *local, const float *parameters, float *sum,
                                tarry_round_result *result, tarry_diagnostic *diagnostic);

/*
 * Without a compute function: the next task of `worker`, in the thread that calls, which may be
 * another one each time; waits for it. *task is NULL once the runtime was told to dismiss its
 * workers. Errors: STATE (none came within wait_ns, TARRY_NEVER: no limit; or the worker's task
 * before was not given back).
 */
TARRY_API int tarry_local_take(tarry_local *local, uint32_t worker, uint64_t wait_ns,
                               const tarry_task **task);
/* From now on nothing is computed: there are no tasks to take, and those that are out are
 * cancelled. For the end, after the last round. Any thread. */
TARRY_API void tarry_local_dismiss(tarry_local *local);

/* What each chunk costs, relative to each other, in the rounds to come, for dynamic orders; NULL:
 * learned. As tarry_server_costs, between rounds. Errors: ARGUMENT. */
TARRY_API int tarry_local_costs(tarry_local *local, const double *costs);

/*
 * Between two rounds: goes on with `next`, a plan of the same workers and parts that was made from
 * the same original one (tarry_plan_evolve); borrowed, like the one before, which is not used any
 * more. Rounds are numbered on; who is there, what each worker did and what
 * the server has learned stay. It waits for no compute function: one in progress runs to its end
 * on what it was given, and its worker goes on with the next plan then. Takes as much memory as the
 * plan anew, and gives back that of the plan before. Errors: ARGUMENT (plans that don't belong
 * together), NO_MEMORY; the runtime goes on with the plan before then.
 */
TARRY_API int tarry_local_replan(tarry_local *local, const tarry_plan *next,
                                 tarry_diagnostic *diagnostic);

/* The server, to look at between two rounds; borrowed until the next round or plan. */
TARRY_API const tarry_server *tarry_local_server(const tarry_local *local);

/* Between two rounds: writes what a runtime needs to go on from here, tarry_server_checkpoint_size
 * bytes of its server. Errors: NO_MEMORY. */
TARRY_API int tarry_local_checkpoint(tarry_local *local, uint8_t *bytes);

/* Makes the round in progress, or the next one, return TARRY_ERROR_INTERRUPTED.
 * May be called from any thread. */
TARRY_API void tarry_local_interrupt(tarry_local *local);

/* What `worker` (0..workers-1) did so far. Called between rounds. */
TARRY_API tarry_local_worker tarry_local_worker_state(const tarry_local *local, uint32_t worker);

#ifdef __cplusplus
}
#endif

#endif
