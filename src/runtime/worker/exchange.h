/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How workers hand each other what was summed and what they hold: a sum that was made, to a worker
 * that missed it; a state, to a worker that is behind. The executor calls an exchange from its
 * exchange thread, and the exchange serves others whatever that thread does meanwhile.
 *
 * What is got comes from a member that the server named, and counts only if its digest is right:
 * the sum's is the caller's to check (it is in the sum's id), the state's was checked here.
 *
 * Messages carry it all (docs/wire.md, PASS), in order, over whatever the owner of the exchange
 * has: connections, threads, a transport of the user's. Whoever gets something says how many bytes
 * may come, twice as many ahead as come in a round trip: few at first, and more with every round
 * trip for as long as that makes them come faster. Whoever gives it sends a piece to each in turn,
 * keeps all that is on its way within a bound, and gives way to sums.
 */
#ifndef RUNTIME_EXCHANGE_H
#define RUNTIME_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

#include "protocol/wire/wire_bodies.h"

/* Bytes of a piece where messages hold it. */
enum { EXCHANGE_PASSED_BYTES = 1 << 16 };

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

/* The numbers of a sum, wherever they lie. Both functions are called by threads of the exchange,
 * one call at a time, and call nothing of it; not 0: the numbers can't be had, or kept. */
typedef struct exchange_numbers {
    size_t count;
    size_t width; /* bytes of a number: 4 or 8 */
    int (*read)(void *user, size_t first, size_t count, void *into);
    int (*write)(void *user, size_t first, size_t count, const void *from);
    void *user;
} exchange_numbers;

/* In the library's host memory. */
exchange_numbers exchange_numbers_at(float *numbers, size_t count);

/* One thread at a time calls these, but for `wake`. */
typedef struct exchange_methods {
    /* Begins to get the sum `sum`, of this name and digest, from the worker `from`; the numbers are
     * borrowed until it is DONE, FAILED or abandoned. What ran is abandoned. Does not wait. Errors:
     * NO_MEMORY. A worker that is not there makes it FAILED. */
    int (*fetch)(exchange *self, uint32_t from, const tarry_sum_id *sum,
                 const exchange_numbers *into);
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
    /* Others may have this sum from now on, whose numbers do not change; NULL: they may not, and
     * none is read any more when this returns. */
    void (*hold)(exchange *self, const tarry_sum_id *sum, const exchange_numbers *numbers);
    /* The answer to `wanted`: the state after `after`, `size` bytes in memory of the exchange's
     * allocator, taken over (also on failure), served to all who wait and released once none is
     * left. Those who get an older one get it whole: a state that takes longer to move than a
     * worker takes to step would never arrive otherwise. NULL: there is none to be had, and they
     * are told so. Errors: NO_MEMORY. */
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

/* ---- for its owner ---- */

typedef struct exchange_settings {
    uint32_t parties;     /* who may ask: 0..parties-1 */
    uint32_t piece_bytes; /* a multiple of 8, at most WIRE_PIECE_BYTES; the same for all */
    uint64_t (*now_ns)(void);
    /* Takes a message to a party along, in order: the body of a PASS; borrowed for the call. It
     * must not wait, nor hand anything to this or another exchange within the call. Any thread that
     * calls the exchange. */
    void (*pass)(void *user, uint32_t to, const void *bytes, size_t size);
    /*
     * NULL: `pass` takes the bytes of pieces along. Else only exchange_pump sends pieces, and
     * `pump` has the owner's thread call that soon. The bytes of `piece` are borrowed until
     * exchange_released(owner), which that thread calls, not within this call. False: it can't be
     * sent, and nothing is borrowed.
     */
    bool (*lend)(void *user, uint32_t to, const wire_pass *piece, const void *bytes, void *owner);
    void (*pump)(void *user);
    /* With `lend`, asked from within exchange_pump: whether numbers of a sum are on their way now.
     * While they are, pieces take a fifth of the time of a connection at most. */
    bool (*sums)(void *user);
    /* With `lend`; called without a lock, and waits for the owner's thread. Once `divert` returns
     * nothing is written where exchange_begin said; once `reclaim` does, all is released that is
     * lent. */
    void (*divert)(void *user);
    void (*reclaim)(void *user);
    void *user;
    bool unchecked; /* all parties are of one process: states go without a digest */
} exchange_settings;

/* Errors: NO_MEMORY, SYSTEM. */
int exchange_create(const exchange_settings *settings, const tarry_allocator *allocator,
                    exchange **made);
/* Nobody calls it any more, and nothing is lent. NULL is allowed. */
void exchange_free(exchange *self);

/* What follows is called by one thread, but for exchange_lose. */

/* A message came from a party, with the bytes of a piece behind it; copied. May call `pass` and
 * what `serve` was told. Errors: FORMAT (any bytes may come in), a reason to lose the party. */
int exchange_take(exchange *self, uint32_t from, const void *bytes, size_t size);
/* The same of a message that was read already and is no piece. */
void exchange_take_message(exchange *self, uint32_t from, const wire_pass *message);
/* The same of a piece: *place is where its bytes are to go before exchange_complete, NULL: nowhere.
 * Errors: FORMAT (not the next piece, or more than may come). */
int exchange_begin(exchange *self, uint32_t from, const wire_pass *piece, void **place);
void exchange_complete(exchange *self, uint32_t from, const wire_pass *piece);

/* Sends what may go. Gives back when it is to be called again if nothing happens before. */
uint64_t exchange_pump(exchange *self);
void exchange_released(void *owner);

/* The party is gone: what is got from it fails, and it gets nothing more. Any thread. */
void exchange_lose(exchange *self, uint32_t party, const char *why);
/* What is got fails: its source was given up. */
void exchange_give_up(exchange *self, const char *why);

typedef enum exchange_expects {
    EXCHANGE_EXPECTS_NOTHING,
    EXCHANGE_EXPECTS_STATE, /* its source still has to write it */
    EXCHANGE_EXPECTS_BYTES,
} exchange_expects;

exchange_expects exchange_awaits(exchange *self);

/* Whoever asks for a state gets this one, after `after`: borrowed until the exchange is freed, or
 * the next call. The caller of the exchange's methods. Errors: NO_MEMORY; nobody gets one then. */
int exchange_lend(exchange *self, const tarry_sum_id *after, const uint8_t *bytes, uint64_t size);

#endif
