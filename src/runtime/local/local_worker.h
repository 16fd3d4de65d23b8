/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of the embedded runtime: an executor whose messages go into the server's inbox. */
#ifndef LOCAL_WORKER_H
#define LOCAL_WORKER_H

#include <stdatomic.h>

#include "runtime/local/local_exchange.h"
#include "runtime/worker/executor.h"

/* What all workers share; read-only for them, but for the mailbox and the snapshots. */
typedef struct local_shared {
    executor_settings executor; /* but for the worker and its uplink */
    snapshots snapshots;        /* where the server has the parameters */
    mailbox server_inbox; /* frames; an empty one says that the sender gives up, or is broken */
    local_exchanges *exchanges; /* NULL where the sum is made at the server */
} local_shared;

typedef struct local_worker {
    local_shared *shared;
    uint32_t id;
    executor executor;
    _Atomic int error; /* its replica's: it is broken */
    /* Where everyone gets the sum: its own parameters. */
    snapshots snapshots;
    bool has_snapshots;
    tarry_engine *engine;
    collective *collective;
} local_worker;

/* Takes all the worker's memory but that of local_worker_join; starts nothing.
 * Errors: as tarry_local_create. End it in any case. */
int local_worker_init(local_worker *worker, local_shared *shared, const tarry_plan *plan,
                      uint32_t id, const worker_slate_settings *wanted,
                      const tarry_allocator *allocator);
/* After executor_close. */
void local_worker_end(local_worker *worker, const tarry_allocator *allocator);

/* What a worker needs where everyone gets the sum. */
typedef struct local_membership {
    uint32_t workers, parts;
    size_t parameters, dimension;
    tarry_replica replica;
    tarry_sum_id last;
    tarry_engine *engine; /* taken over */
    collective_forms forms;
} local_membership;

/* Before local_worker_init. Errors: as collective_create. */
int local_worker_join(local_worker *worker, local_shared *shared, uint32_t id,
                      const local_membership *membership, const tarry_allocator *allocator);
/* Tells the worker how the other one's engine is reached. Errors: NO_MEMORY. */
int local_worker_meet(local_worker *worker, const local_worker *other);

#endif
