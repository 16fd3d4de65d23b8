/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker of the embedded runtime: a thread that talks (messages, encoding, sending) and one
 * that computes. Both step the same worker machine under its lock; no computation and no encoding
 * happens under it.
 */
#ifndef LOCAL_WORKER_H
#define LOCAL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tarry/local.h>
#include <tarry/worker.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "protocol/codec.h"
#include "runtime/local/local_desk.h"
#include "runtime/mailbox.h"
#include "runtime/snapshot.h"

/* What all workers share; read-only for them, but for the mailbox and the snapshots. */
typedef struct local_shared {
    uint32_t pieces; /* of the plan */
    const tarry_straggler *straggler;
    tarry_compute *compute; /* NULL: compute_spans */
    tarry_compute_spans *compute_spans;
    void *user;
    layout cut; /* into the least number of parts: it has the longest and the most stripes */
    const kernel *kernels;
    snapshots snapshots;
    mailbox server_inbox; /* frames; an empty one says that the sender gives up */
} local_shared;

typedef struct local_task {
    uint64_t ticket; /* 0: none */
    uint64_t round;
    uint32_t slot;
    uint32_t chunk;
    float *gradient; /* to be filled; the computing thread's choice */
    const tarry_span *spans;
    uint32_t span_count;
} local_task;

typedef struct local_worker {
    local_shared *shared;
    uint32_t id;
    mailbox inbox;
    /*
     * What it has for the plan; the talking thread exchanges it, and others read it when that is
     * known to be done. A desk that was left while its gradient was being computed stays until that
     * is over.
     */
    local_desk *desk;
    local_desk *next; /* to turn to; what it had before when it has turned */
    local_desk *left;

    pthread_mutex_t lock;  /* over the machine, the task and what is written */
    pthread_cond_t change; /* the computing thread waits for it */
    local_task task;       /* to be computed, or being computed */
    const float *written;  /* by a compute function in progress; NULL: there is none */
    bool turning;          /* to `next` */
    uint64_t tickets;      /* given out so far */
    bool closing;

    bool encoded; /* the talking thread's: an ENCODE is carried out, its event is due */
    tarry_event encoded_event;

    _Atomic uint64_t busy_ns; /* spent on chunks that were finished */
    bool talking, computing;  /* threads that were started */
    pthread_t talk_thread, compute_thread;
} local_worker;

/* Takes all the worker's memory; starts nothing.
 * Errors: as tarry_local_create. Destroy it in any case. */
int local_worker_init(local_worker *worker, local_shared *shared, const tarry_plan *plan,
                      uint32_t id, const tarry_server_settings *server,
                      const tarry_allocator *allocator);
int local_worker_start(local_worker *worker);
/*
 * Makes the worker go on with `desk`, which it takes over: it drops what it is at. Between rounds,
 * when all that was meant for the desk before has been put into its inbox. Cannot fail.
 */
void local_worker_turn(local_worker *worker, local_desk *desk);
/* Whether it has; the server's inbox is woken when that changes. */
bool local_worker_has_turned(local_worker *worker);
/* Frees what it had before as far as no compute function uses it. The caller's, once it turned. */
void local_worker_tidy(local_worker *worker, const tarry_allocator *allocator);
/* Asks both threads to end; local_worker_destroy waits for them. */
void local_worker_close(local_worker *worker);
void local_worker_destroy(local_worker *worker, const tarry_allocator *allocator);

#endif
