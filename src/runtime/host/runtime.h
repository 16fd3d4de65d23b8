/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime consists of: a host of the machine, and what differs from one to another. */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/runtime.h>

#include "base/record.h"
#include "runtime/host/host.h"
#include "runtime/worker/exchange.h"

/*
 * Getting a copy of the workers' state, or of the last sum, from one of them. A transfer belongs to
 * the runtime, not to a call: it continues in the next call that asks for the same thing.
 */

typedef struct copying {
    exchange *by; /* NULL: no transfer is in progress */
    uint32_t from;
    uint32_t next;       /* worker to be asked first when the next transfer begins */
    tarry_sum_id wanted; /* the last sum when the transfer began */
    float *numbers;      /* of a sum; NULL: the transfer is one of a state */
    uint64_t got;        /* bytes of this transfer at the last look */
    uint64_t moved_ns;   /* when `got` grew last */
    uint64_t limit_ns;   /* a worker that sends nothing for so long is given up */
    uint64_t copied;     /* bytes of all transfers */
} copying;

typedef void runtime_request(tarry_runtime *self, void *argument);

/* As the public functions of the same names, whose comments hold. NULL stands for what the public
 * header says of runtimes that don't have it. */
typedef struct runtime_methods {
    /* Calls `request` in the thread of the host, while nothing steps it; NULL: here. */
    void (*ask)(tarry_runtime *self, runtime_request *request, void *argument);
    int (*open)(tarry_runtime *self, tarry_diagnostic *diagnostic);
    /* The diagnostic is the caller's to set. Errors: INTERRUPTED, STATE (it is until_ns). */
    int (*wait)(tarry_runtime *self, uint32_t workers, uint64_t until_ns);
    int (*round)(tarry_runtime *self, const float *parameters, float *sum,
                 tarry_round_result *result, tarry_diagnostic *diagnostic);
    int (*replan)(tarry_runtime *self, const tarry_plan *next, tarry_diagnostic *diagnostic);
    /* The exchange that gets what the worker has, until `leave`; NULL: the worker is not there. Its
     * memory is of the host's allocator. The caller's thread, as for all three. NULL: the server
     * makes the sum. */
    exchange *(*reach)(tarry_runtime *self, uint32_t worker);
    /* Nothing more is got from the worker. NULL: there is nothing to be done. */
    void (*leave)(tarry_runtime *self, uint32_t worker);
    /* Waits for the exchange that `reach` gave, as exchange_methods.wait. NULL: that is called. */
    void (*await)(tarry_runtime *self, uint64_t until_ns, exchange_progress *progress);
    /* Takes in what workers say until until_ns, outside of rounds. NULL: another thread does. */
    void (*listen)(tarry_runtime *self, uint64_t until_ns);
    /* Workers may load this state from the server. The caller's thread. Errors: SYSTEM. NULL: they
     * can't. */
    int (*vectors)(tarry_runtime *self, const tarry_sum_id *after, const void *bytes,
                   uint64_t size);
    /* Makes the round or wait in progress, or the next one, look at `interrupted`. Any thread. */
    void (*wake)(tarry_runtime *self);
    /* What the host does not know of a worker. In the host's thread. */
    void (*describe)(tarry_runtime *self, uint32_t worker, tarry_worker_state *state);
    const char *(*address)(const tarry_runtime *self, uint32_t index);
    const uint8_t *(*job_id)(const tarry_runtime *self);
    /* In the host's thread. */
    void (*note)(tarry_runtime *self, uint64_t done, uint64_t rounds, const char *note);
    /* As status_write. In the host's thread. */
    bool (*status)(tarry_runtime *self, record_out *out);
    void (*free)(tarry_runtime *self, bool finished);
} runtime_methods;

/* The first member of each kind of runtime. */
struct tarry_runtime {
    const runtime_methods *methods;
    host *host;
    bool awaits_checkpoint;   /* the machine was restored, and must not be stepped before one is
                                 stored */
    _Atomic bool interrupted; /* to be taken by a round or wait */
    copying copying;
};

static inline bool runtime_take_interrupt(tarry_runtime *self)
{
    return atomic_exchange(&self->interrupted, false);
}

#endif
