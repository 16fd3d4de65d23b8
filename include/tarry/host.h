/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of a runtime of your own but its transport: the server's side as a tarry_runtime, and a
 * worker that computes and talks. The transport carries frames (codec.h) with the numbers behind
 * them between both, in order, or is lost. examples/pipes.c is a whole runtime.
 *
 * With TARRY_SUM_EVERYWHERE no numbers travel with frames. Each worker has a replica (replica.h)
 * and an engine (engine.h), and the transport also carries what workers pass each other: sums that
 * one of them missed, and states.
 */
#ifndef TARRY_HOST_H
#define TARRY_HOST_H

#include <tarry/codec.h>
#include <tarry/compute.h>
#include <tarry/engine.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>
#include <tarry/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is passed among workers and the server is no longer than that. */
#define TARRY_PASS_MOST (65536 + 48) /* bytes */

/* ---- the server ---- */

/* Functions of the transport; all are called in the thread of tarry_runtime_round or _wait, but for
 * `wake`. */
typedef struct tarry_transport {
    void *user;
    /*
     * Sends a worker a frame with `count` numbers behind it: a round's parameters, else none. All
     * is borrowed for the call. Not 0: the worker can't be reached, and is lost.
     */
    int (*send)(void *user, uint32_t worker, const void *frame, size_t size, const float *numbers,
                size_t count);
    /* Waits until something came in, until_ns of the monotonic clock (0: does not wait;
     * TARRY_NEVER: no limit) or `wake`, and tells `runtime` what came, by the functions below. */
    void (*receive)(void *user, tarry_runtime *runtime, uint64_t until_ns);
    /* Ends `receive`, or its next call. Any thread. */
    void (*wake)(void *user);
    /* Makes the workers go on with `next` (tarry_worker_host_replan), once they have all that was
     * sent before. Not 0: they can't. NULL: plans stay. */
    int (*replan)(void *user, const tarry_plan *next);
    /* The run is over (`finished`) or will be resumed; nothing is called any more. NULL: nobody
     * needs to know. */
    void (*end)(void *user, bool finished);
    /* TARRY_SUM_EVERYWHERE: takes these bytes to the worker (tarry_worker_host_passed), from
     * TARRY_NO_WORKER; borrowed for the call, which delivers nothing yet. NULL: what workers hold
     * can't be had here (tarry_runtime_state, tarry_runtime_sum). */
    void (*pass)(void *user, uint32_t worker, const void *bytes, size_t size);
    /* The server goes on without the worker, and why. After TARRY_ABSENT_SILENT it counts as lost,
     * and nothing that it sends is heard before it is there anew (tarry_host_join). NULL: nobody
     * wants to know. */
    void (*left_out)(void *user, uint32_t worker, tarry_absence why);
} tarry_transport;

typedef struct tarry_host_settings {
    size_t size;                  /* of this structure: its init sets it */
    size_t parameters, dimension; /* of the vectors: >= 1 numbers each */
    tarry_server_settings
        server;                /* its dimension is set from that above; stripe_length 0: chosen */
    const uint8_t *checkpoint; /* of tarry_runtime_checkpoint, to go on from; for the call; NULL:
                                  rounds count from 0 */
    size_t checkpoint_size;
    tarry_sum_log log; /* TARRY_SUM_EVERYWHERE */
    tarry_transport transport;
} tarry_host_settings;

/* tarry_server_settings_init, everything else 0. */
#define tarry_host_settings_init(settings)                                                         \
    tarry_host_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_host_settings_init_sized(tarry_host_settings *settings, size_t size);

/* No worker is there yet. `plan` is borrowed, and must outlive the runtime or its next plan.
 * Errors: ARGUMENT, NO_MEMORY, SYSTEM, FORMAT (a checkpoint that is none, or of another plan or
 * settings).
 */
TARRY_API int tarry_host_create(const tarry_plan *plan, const tarry_host_settings *settings,
                                const tarry_allocator *allocator, tarry_runtime **runtime,
                                tarry_diagnostic *diagnostic);

/* From within `receive`, or between rounds: a worker is there, with nothing finished, or there
 * anew; or it is gone. */
TARRY_API void tarry_host_join(tarry_runtime *runtime, uint32_t worker);
TARRY_API void tarry_host_lose(tarry_runtime *runtime, uint32_t worker);
/* The same: something came from the worker, if no whole frame. It is there, though its threads may
 * be too busy with numbers to answer. A transport that has a thread of its own at each worker says
 * so at least four times within silence_ns. */
TARRY_API void tarry_host_heard(tarry_runtime *runtime, uint32_t worker);
/* The same: a frame came from the worker, with `count` numbers behind it; copied. Errors: FORMAT
 * (it is none, or not with so many numbers; any bytes may come in), which is a reason to lose the
 * worker. */
TARRY_API int tarry_host_deliver(tarry_runtime *runtime, uint32_t worker, const void *frame,
                                 size_t size, const float *numbers, size_t count);

/* From within `receive`: the worker passed these bytes to TARRY_NO_WORKER; copied. Errors: FORMAT
 * (any bytes may come in), STATE (the server makes the sum). */
TARRY_API int tarry_host_passed(tarry_runtime *runtime, uint32_t worker, const void *bytes,
                                size_t size);

/* ---- a worker ---- */

typedef struct tarry_worker_host tarry_worker_host;

typedef struct tarry_worker_host_settings {
    size_t size;                      /* of this structure: its init sets it */
    uint32_t worker;                  /* 0..workers-1 */
    size_t parameters, dimension;     /* as the server has them */
    tarry_server_settings server;     /* the same; the worker takes its own settings from it */
    tarry_compute *compute;           /* required */
    void *user;                       /* of compute and of the next ones */
    const tarry_straggler *straggler; /* NULL for none; borrowed, must outlive the worker */
    /* Sends the server a frame with `count` numbers behind it; borrowed for the call. One call at a
     * time, by threads of the worker; it may wait for the transport. Messages that can't be sent
     * are lost. */
    void (*send)(void *user, const void *frame, size_t size, const float *numbers, size_t count);
    /* The worker can't go on in this round, since its machine failed or a frame was none: the
     * server should lose it. NULL: nobody hears. */
    void (*give_up)(void *user);
    /*
     * TARRY_SUM_EVERYWHERE, else not looked at: what the worker steps, called by its threads; the
     * sum that it has stepped on last (step 0: it has the first state); its engine, borrowed, to
     * outlive the worker; and how it passes other workers something, TARRY_NO_WORKER being the
     * server: the bytes are borrowed for the call, which does not wait and delivers nothing yet.
     */
    tarry_replica replica;
    tarry_sum_id last;
    tarry_engine *engine;
    void (*pass)(void *user, uint32_t to, const void *bytes, size_t size);
    /* The replica or the owner of vectors gave this error, and the worker can't go on at all. NULL:
     * nobody hears. */
    void (*broken)(void *user, int error);
    /* The owner of its vectors; borrowed, must outlive the worker. NULL: host memory. */
    tarry_vectors *vectors;
} tarry_worker_host_settings;

/* tarry_server_settings_init, everything else 0. */
#define tarry_worker_host_settings_init(settings)                                                  \
    tarry_worker_host_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_worker_host_settings_init_sized(tarry_worker_host_settings *settings,
                                                     size_t size);

/* Starts its threads; `plan` is borrowed, and must outlive the worker or its next plan. Memory: as
 * one worker of tarry_local_create. Errors: ARGUMENT, NO_MEMORY, SYSTEM. */
TARRY_API int tarry_worker_host_create(const tarry_plan *plan,
                                       const tarry_worker_host_settings *settings,
                                       const tarry_allocator *allocator, tarry_worker_host **worker,
                                       tarry_diagnostic *diagnostic);
/* Waits until a compute function in progress has returned. NULL is allowed. */
TARRY_API void tarry_worker_host_free(tarry_worker_host *worker);

/* A frame came from the server, with `count` numbers behind it; all is copied, and the call does
 * not wait. One thread at a time. Errors: FORMAT (no frame, or not with so many numbers; any bytes
 * may come in), NO_MEMORY. */
TARRY_API int tarry_worker_host_deliver(tarry_worker_host *worker, const void *frame, size_t size,
                                        const float *numbers, size_t count);
/* Between rounds: goes on with `next`, when all that was sent for the plan before is delivered; in
 * the thread that delivers. Errors: ARGUMENT, NO_MEMORY; it goes on with the plan before then. */
TARRY_API int tarry_worker_host_replan(tarry_worker_host *worker, const tarry_plan *next);

/* ---- a worker with TARRY_SUM_EVERYWHERE; any thread, unless something else is said ---- */

/* Another worker's engine is reached by these bytes, that its `address` gave, from now on; size 0:
 * by none. Errors: NO_MEMORY, ARGUMENT (no other worker of the plan, or too many bytes). */
TARRY_API int tarry_worker_host_meet(tarry_worker_host *worker, uint32_t other,
                                     const uint8_t *address, size_t size);
/* `from` passed these bytes; copied. One thread at a time. Errors: FORMAT (any bytes may come in).
 */
TARRY_API int tarry_worker_host_passed(tarry_worker_host *worker, uint32_t from, const void *bytes,
                                       size_t size);
/* `other`, or TARRY_NO_WORKER for the server, is gone or counts as gone: nothing is expected of it
 * any more. It may be back later. */
TARRY_API void tarry_worker_host_part(tarry_worker_host *worker, uint32_t other);
/* The server counts this worker as lost: what it said and is not read yet is dropped, and what the
 * worker gets from others ends; a sum in progress goes on. It is to be called before anything of
 * the server's next word is delivered; in the thread that delivers. */
TARRY_API void tarry_worker_host_cut(tarry_worker_host *worker);

#ifdef __cplusplus
}
#endif

#endif
