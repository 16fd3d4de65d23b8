/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of the embedded runtime: an executor whose messages go into the server's inbox. */
#ifndef LOCAL_WORKER_H
#define LOCAL_WORKER_H

#include "runtime/worker/executor.h"

/* What all workers share; read-only for them, but for the mailbox and the snapshots. */
typedef struct local_shared {
    executor_settings executor; /* but for the worker and its uplink */
    snapshots snapshots;
    mailbox server_inbox; /* frames; an empty one says that the sender gives up */
} local_shared;

typedef struct local_worker {
    local_shared *shared;
    uint32_t id;
    executor executor;
} local_worker;

/* Takes all the worker's memory; starts nothing.
 * Errors: as tarry_local_create. Destroy its executor in any case. */
int local_worker_init(local_worker *worker, local_shared *shared, const tarry_plan *plan,
                      uint32_t id, const worker_slate_settings *wanted,
                      const tarry_allocator *allocator);

#endif
