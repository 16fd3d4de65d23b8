/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How workers hand each other what was summed and what they hold: a sum that was made, to one that
 * missed it; a state, to one that is behind. Messages carry them (pass_exchange.h), or connections
 * among workers (mesh.h). The executor calls an exchange from its exchange thread, and it serves
 * others whatever that thread does meanwhile.
 *
 * What is got comes from a member that the server named, and counts only if its digest is right:
 * the sum's is the caller's to check (it is in the sum's id), the state's was checked here.
 */
#ifndef RUNTIME_EXCHANGE_H
#define RUNTIME_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

typedef struct exchange exchange;

typedef enum exchange_state {
    EXCHANGE_IDLE, /* nothing was begun, or it was abandoned */
    EXCHANGE_RUNNING,
    EXCHANGE_DONE,
    EXCHANGE_FAILED,
} exchange_state;

typedef struct exchange_progress {
    exchange_state state;
    uint64_t got; /* bytes */
    /* DONE of a load: the whole state, and what it is after; borrowed until the next call. */
    const uint8_t *bytes;
    uint64_t size;
    tarry_sum_id after;
    char why[128]; /* FAILED: a few words */
} exchange_progress;

/* One thread at a time calls these, but for `wake`. */
typedef struct exchange_methods {
    /* Begins to get the sum `sum`, of this name and digest, from the worker `from`: `dimension`
     * numbers into `into`, borrowed until it is DONE, FAILED or abandoned. What ran is abandoned.
     * Does not wait. Errors: NO_MEMORY. A worker that is not there makes it FAILED. */
    int (*fetch)(exchange *self, uint32_t from, const tarry_sum_id *sum, float *into,
                 size_t dimension);
    /* Begins to get the state after `after` or after a later sum; as fetch. */
    int (*load)(exchange *self, uint32_t from, const tarry_sum_id *after);
    /* Waits until it is DONE or FAILED, until_ns of the monotonic clock (0: does not wait), or
     * `wake`. */
    void (*wait)(exchange *self, uint64_t until_ns, exchange_progress *progress);
    /* Ends the wait in progress, or the next one. Any thread. */
    void (*wake)(exchange *self);
    /* Hands over the state of a load that is DONE: progress.size bytes of the exchange's allocator,
     * which the caller releases. NULL if memory is short. Only `abandon` may be called next. */
    uint8_t *(*take)(exchange *self);
    /* Nothing of it is written any more when this returns, and a state that was got is gone, unless
     * it was taken. */
    void (*abandon)(exchange *self);
    /* Others may have this sum from now on, `dimension` numbers that do not change; NULL: they may
     * not, and none is read any more when this returns. */
    void (*hold)(exchange *self, const tarry_sum_id *sum, const float *numbers, size_t dimension);
    /* The answer to `wanted`: the state after `after`, `size` bytes in memory of the exchange's
     * allocator, taken over (also on failure), served to all who wait and released once none is
     * left. NULL: there is none to be had, and they are told so. */
    int (*offer)(exchange *self, const tarry_sum_id *after, uint8_t *bytes, uint64_t size);
    /* How the exchange asks for a state that others want, to be answered by `offer`: called from a
     * thread of its own; it must not wait or call the exchange. Set before any other call, and to
     * NULL at the end: once `hold` has returned after that it is not called any more. */
    void (*serve)(exchange *self, void (*wanted)(void *user), void *user);
} exchange_methods;

/* What every exchange begins with. */
struct exchange {
    const exchange_methods *methods;
};

#endif
