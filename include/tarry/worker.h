/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's state machine: it computes its chunks in order, reports each, and on the server's
 * signal works out its coefficients by minimum-norm least squares and sends its coded part, stripe
 * by stripe.
 */
#ifndef TARRY_WORKER_H
#define TARRY_WORKER_H

#include <tarry/event.h>
#include <tarry/plan.h>
#include <tarry/server.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_worker_settings {
    uint32_t worker;              /* 0..workers-1 */
    tarry_server_settings server; /* as the server has them */
    tarry_sum_id last; /* TARRY_SUM_EVERYWHERE: the sum that it has stepped on last; step 0: it has
                          the first state */
} tarry_worker_settings;

typedef struct tarry_worker tarry_worker;

/*
 * Makes a worker for `plan`, which is borrowed and must outlive it. All its memory is taken here.
 * Errors: ARGUMENT, NO_MEMORY.
 */
TARRY_API int tarry_worker_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                                  const tarry_allocator *allocator, tarry_worker **worker,
                                  tarry_diagnostic *diagnostic);
TARRY_API void tarry_worker_free(tarry_worker *worker); /* NULL is allowed */

/*
 * Takes one event and sets *effects, borrowed until the next call. At most one COMPUTE and one
 * ENCODE are in progress at a time; a new COMPUTE replaces the one before. With TARRY_KEEP_CREDITED
 * at most ahead + 1 gradients are there at a time, the one that is computed and those that are
 * neither folded nor dropped; each finished one is either folded or dropped. A message that makes
 * no sense yields a REJECT effect and changes nothing. Errors: ARGUMENT (an event of the wrong
 * machine), NUMERICAL.
 */
TARRY_API int tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                                const tarry_effects **effects);

/*
 * With TARRY_SUM_EVERYWHERE: makes a worker go on where `from` stands, of another plan, once the
 * server does (tarry_server_adopt): with the state and the sum that it holds. An order in progress
 * is none of the new worker's: the server asks, and gives it again. `from` is not changed, and
 * steps no more. Errors: ARGUMENT (another worker, or one without such sums), STATE (`worker` has
 * heard of a server, or a STEP of `from` is in progress); nothing changes then.
 */
TARRY_API int tarry_worker_adopt(tarry_worker *worker, const tarry_worker *from,
                                 tarry_diagnostic *diagnostic);

/* When to step again with TARRY_EVENT_TIME if nothing else happens;
 * TARRY_NEVER if only events matter. */
TARRY_API uint64_t tarry_worker_deadline(const tarry_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
