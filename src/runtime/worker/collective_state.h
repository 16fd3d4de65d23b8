/* SPDX-License-Identifier: Apache-2.0 */
/* A collective as its own files see it. */
#ifndef RUNTIME_COLLECTIVE_STATE_H
#define RUNTIME_COLLECTIVE_STATE_H

#include <pthread.h>

#include "engine/sum_digest.h"
#include "runtime/worker/collective.h"

/* The label of parameters whose round has not been told yet. */
#define COLLECTIVE_NO_ROUND UINT64_MAX

typedef enum collective_kind {
    COLLECTIVE_NOTHING,
    COLLECTIVE_REDUCE,
    COLLECTIVE_FETCH,
    COLLECTIVE_LOAD,
} collective_kind;

typedef struct collective_order {
    collective_kind kind;
    tarry_sum_id sum;
    uint32_t from;         /* FETCH, LOAD */
    bool digests;          /* LOAD: the event's `state` is wanted */
    collective_sum reduce; /* REDUCE */
} collective_order;

typedef struct collective_address {
    uint8_t *bytes; /* NULL: not known */
    size_t size;
} collective_address;

struct collective {
    tarry_allocator allocator;
    collective_settings settings;
    bool has_lock, has_replica_lock, has_roster_lock, has_change, started;
    pthread_t thread;

    uint64_t *gathered; /* the talking thread's */

    pthread_mutex_t lock; /* over all that follows, up to the next lock */
    pthread_cond_t change;
    collective_order order; /* its contents stay as they are until it is over */
    bool running;           /* the exchange thread is at it */
    bool ended;             /* `end` is to be taken */
    bool abandoning;        /* the order in progress is to be ended, */
    bool halting;           /* or, a REDUCE, with what it has come to */
    bool wanted;            /* others want the state, */
    bool lent;              /* which the replica's owner is changing */
    bool got;               /* a state that was got can be dropped */
    bool closing;

    /* The exchange thread's while it is at the order, else the talking thread's. */
    uint64_t *group;
    float *sum;            /* d numbers */
    sum_digester digester; /* the engine's thread's while that runs */
    tarry_sum_id held;     /* what `sum` is; step 0: nothing */
    /* Of a sum that failed `sum` has the first `whole` numbers of each of `piece_parts` parts; step
     * 0: nothing. */
    tarry_sum_id piece;
    size_t whole;
    uint32_t piece_parts;
    tarry_event end;
    exchange_progress state; /* of a LOAD that has ended */
    float *weights;
    tarry_engine_member *members;

    pthread_mutex_t replica_lock; /* over the replica's state while nobody is `lent` it */
    tarry_sum_id last;            /* that it has stepped on */

    pthread_mutex_t roster_lock;
    collective_address *addresses;
};

/* The exchange thread; its argument is the collective. */
void *collective_run(void *argument);

#endif
