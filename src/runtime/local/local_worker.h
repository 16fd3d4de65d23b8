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
#include "runtime/local/mailbox.h"
#include "runtime/local/snapshot.h"

/* What all workers share; read-only for them, but for the mailbox and the snapshots. */
typedef struct local_shared {
    const tarry_plan *plan;
    const tarry_straggler *straggler;
    tarry_compute *compute;
    void *user;
    layout cut; /* into the least number of parts: it has the longest and the most stripes */
    const kernel *kernels;
    uint32_t banks; /* rounds whose gradients are kept: 1, or 2 with TARRY_FILL_STALE */
    snapshots snapshots;
    mailbox server_inbox; /* frames; an empty one says that the sender gives up */
} local_shared;

typedef struct local_task {
    uint64_t ticket; /* 0: none */
    uint64_t round;
    uint32_t slot;
    uint32_t chunk;
    float *gradient; /* to be filled; the computing thread's choice */
} local_task;

enum { LOCAL_PLACES = 2 }; /* for gradients, with TARRY_KEEP_CREDITED */

typedef struct local_worker {
    local_shared *shared;
    uint32_t id;
    uint32_t load;
    codec_shape shape;
    mailbox inbox;
    uint64_t *words; /* of a decoded frame */
    tarry_keep keep;
    float **gradient;           /* banks x load vectors of d numbers; NULL if one has no place */
    float *place[LOCAL_PLACES]; /* TARRY_KEEP_CREDITED: what these point to; d numbers each */
    const float **inputs;       /* scratch: load, of transfer_encode */
    float *part;   /* z: room for the longest part; TARRY_KEEP_CREDITED: the running sum */
    void *scratch; /* of transfer_encode */

    pthread_mutex_t lock;  /* over the machine and the task */
    pthread_cond_t change; /* the computing thread waits for it */
    tarry_worker *machine;
    local_task task;  /* to be computed, or being computed */
    uint64_t tickets; /* given out so far */
    bool closing;

    bool encoded; /* the talking thread's: an ENCODE is carried out, its event is due */
    tarry_event encoded_event;

    _Atomic uint64_t busy_ns; /* spent on chunks that were finished */
    bool talking, computing;  /* threads that were started */
    pthread_t talk_thread, compute_thread;
} local_worker;

/* Takes all the worker's memory; starts nothing.
 * Errors: as tarry_local_create. Destroy it in any case. */
int local_worker_init(local_worker *worker, local_shared *shared, uint32_t id,
                      const tarry_server_settings *server, const tarry_allocator *allocator);
int local_worker_start(local_worker *worker);
/* Asks both threads to end; local_worker_destroy waits for them. */
void local_worker_close(local_worker *worker);
void local_worker_destroy(local_worker *worker, const tarry_allocator *allocator);

#endif
