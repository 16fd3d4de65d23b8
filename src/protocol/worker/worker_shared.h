/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers need within a step alone, once for all workers of one process that takes one step
 * after the other: a simulation's worker then takes a fifth of the memory.
 */
#ifndef PROTOCOL_WORKER_SHARED_H
#define PROTOCOL_WORKER_SHARED_H

#include <tarry/worker.h>

typedef struct worker_shared worker_shared;

/* For workers of `plan`, which is borrowed, whose settings are these but for `worker` and `last`.
 * Errors: NO_MEMORY. */
int worker_shared_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                         const tarry_allocator *allocator, worker_shared **shared);
void worker_shared_free(worker_shared *shared); /* NULL is allowed */

/*
 * With TARRY_SUM_EVERYWHERE: room for the group of a signal, a bit per worker. A signal whose group
 * lies here is not copied; all signals whose sums have not begun must have the same then.
 */
uint64_t *worker_shared_group(worker_shared *shared);

/* As tarry_worker_create with the settings of `shared`, which must outlive the worker. The effects
 * of a step last until the next step of any of them. */
int worker_create_shared(const tarry_plan *plan, const tarry_worker_settings *settings,
                         worker_shared *shared, const tarry_allocator *allocator,
                         tarry_worker **worker, tarry_diagnostic *diagnostic);

#endif
