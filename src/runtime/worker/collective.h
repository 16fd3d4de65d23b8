/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker does among workers, where everyone gets the sum (TARRY_SUM_EVERYWHERE): it carries
 * out one order at a time on a thread of its own, REDUCE by an engine, FETCH and LOAD by an
 * exchange, so that the executor's talking thread stays free to answer the server. It has the sum
 * that is held and the replica that steps on it, and hands both on to workers that ask.
 *
 * The talking thread gives orders, takes their ends and steps; the replica is called by it alone,
 * but for `save`, which the exchange thread calls while nothing steps. A state that was got is
 * loaded when its end is taken: an order that is abandoned has changed nothing.
 */
#ifndef RUNTIME_COLLECTIVE_H
#define RUNTIME_COLLECTIVE_H

#include <stdbool.h>

#include <tarry/engine.h>
#include <tarry/plan.h>
#include <tarry/replica.h>

#include <tarry/server.h>

#include "runtime/worker/exchange.h"
#include "runtime/worker/worker_host.h"

/* The forms in which numbers of sums travel, as in tarry_engine_sum. */
typedef struct collective_forms {
    tarry_compress up, down;
    uint64_t seed;
    uint32_t exact;
} collective_forms;

static inline collective_forms collective_forms_of(const tarry_server_settings *server)
{
    return (collective_forms){.up = server->compress,
                              .down = server->compress_down,
                              .seed = server->compress_seed,
                              .exact = server->compress_exact};
}

/* All that is pointed to is borrowed, and must outlive the collective. */
typedef struct collective_settings {
    uint32_t worker, workers;
    uint32_t parts;
    size_t dimension; /* of the sum */
    const worker_vectors *vectors;
    tarry_replica replica;
    tarry_sum_id last; /* that the replica has stepped on; step 0: it has the first state */
    tarry_engine *engine;
    collective_forms forms;
    exchange *exchange;
    /* The worker's own: it gets the replica's parameters. Where the replica has none, vectors of
     * one number that nobody reads. */
    snapshots *snapshots;
    /* An order has ended, to be taken; the exchange thread. */
    void (*ended)(void *user);
    void *user;
    /* Nothing came of an order, and why in words; the exchange thread. NULL: nobody is told. */
    void (*failed)(void *user, const char *why);
    void *failed_user;
} collective_settings;

typedef struct collective collective;

/* What is to be summed: part `p` is R[p][worker] times `scale` times each member's coded part. */
typedef struct collective_sum {
    tarry_sum_id name;
    const tarry_plan *plan;
    double scale;
    /* Own, borrowed until the order has ended: host memory, or the place; neither: zeros. */
    const float *part;
    uint32_t place;
} collective_sum;

/* Starts nothing, and makes the replica's parameters the current snapshot. Errors: NO_MEMORY,
 * SYSTEM, and what the replica gave; nothing is left to free then. */
int collective_create(const collective_settings *settings, const tarry_allocator *allocator,
                      collective **made);
/* Starts the exchange thread. Errors: SYSTEM. */
int collective_start(collective *self);
/* Ends what runs, and waits for the thread; the executor does so before its own end. */
void collective_stop(collective *self);
/* NULL is allowed. */
void collective_free(collective *self);

/* Another worker's engine is reached by these bytes from now on (at most
 * TARRY_ENGINE_ADDRESS_MOST); size 0: by none. Any thread. Errors: NO_MEMORY. */
int collective_meet(collective *self, uint32_t worker, const uint8_t *address, size_t size);

/* ---- orders, of the talking thread; one at a time, of which the one before has been taken or
 * abandoned ---- */

/* Notes who takes part in the next REDUCE, a bit per worker; copied. May come while an order runs.
 */
void collective_gather(collective *self, const uint64_t *group);
void collective_reduce(collective *self, const collective_sum *sum);
void collective_fetch(collective *self, uint32_t from, const tarry_sum_id *sum);
/* From itself: from the server, which has the state of a checkpoint and the id past the last.
 * digests: the event's `state` is wanted. */
void collective_load(collective *self, uint32_t from, const tarry_sum_id *after, bool digests);
/* Waits until nothing of the order in progress is read or written any more; its end is dropped.
 * Without one nothing happens. */
void collective_abandon(collective *self);
/* The same of a FETCH or LOAD alone. */
void collective_cut(collective *self);
/*
 * The event of an order that has ended. False: none has. A state that was got is loaded here, and
 * its parameters are the current snapshot then. *error is what the replica gave: but for TARRY_OK
 * the worker can't go on.
 */
bool collective_take(collective *self, tarry_event *event, int *error);

/* ---- the talking thread ---- */

/* Steps on the held sum, and makes the new parameters the current snapshot. *state: their digest if
 * that is wanted and there are any, or 0. Errors: STATE (the sum is not held), NO_MEMORY, what the
 * replica gave. */
int collective_step(collective *self, const tarry_sum_id *sum, bool digests, uint64_t *state);
/* Where the replica's owner steps (tarry_replica.step is NULL): the held sum, which stays as it is,
 * and the state, which nobody asks for, until collective_stepped. Errors: STATE (the sum is not
 * held). */
int collective_lend(collective *self, const tarry_sum_id *sum, const float **numbers);
/* The owner has stepped; as collective_step otherwise. */
int collective_stepped(collective *self, const tarry_sum_id *sum, bool digests, uint64_t *state);
bool collective_is_stepped(const collective *self);
/* A worker without parameters hands out none. */
bool collective_has_parameters(const collective *self);

#endif
