/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange (exchange.h) over messages that somebody else carries from one party to another, in
 * order, or loses with the party. Who gets something asks for it piece by piece, so that no more
 * than a few pieces are on their way to it at a time, whatever their number.
 *
 * The parties are the workers, and behind them the server. A party that is gone without a word is
 * the owner's to tell (pass_exchange_lose): this exchange reads no clock to find that out.
 */
#ifndef RUNTIME_PASS_EXCHANGE_H
#define RUNTIME_PASS_EXCHANGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/event.h>

#include "runtime/worker/exchange.h"

/* The longest message. */
enum { PASS_PIECE_BYTES = 1 << 16, PASS_MOST_BYTES = PASS_PIECE_BYTES + 32 };

typedef struct pass_exchange_settings {
    uint32_t parties;
    /* Takes a message to a party along; the bytes are borrowed for the call. It must not wait, nor
     * hand anything to this or another exchange within the call. Any thread that calls the
     * exchange. */
    void (*pass)(void *user, uint32_t to, const void *bytes, size_t size);
    void *user;
    bool unchecked; /* all parties are of one process: states go without a digest */
} pass_exchange_settings;

/* Errors: NO_MEMORY, SYSTEM. */
int pass_exchange_create(const pass_exchange_settings *settings, const tarry_allocator *allocator,
                         exchange **made);
/* Nobody calls it any more. NULL is allowed. */
void pass_exchange_free(exchange *self);

/* A message came from a party; copied. May call `pass` and what `serve` was told. One thread at a
 * time. Errors: FORMAT (no message of an exchange; any bytes may come in). */
int pass_exchange_take(exchange *self, uint32_t from, const void *bytes, size_t size);
/* The party is gone: what is got from it fails, and it gets nothing more. Any thread. */
void pass_exchange_lose(exchange *self, uint32_t party);

/* What exchanges say to each other (pass_exchange.h), as bytes: the same on every machine. */

enum { PASS_DIGEST = 32, PASS_MOST_HEAD = 80 };

typedef enum pass_type {
    PASS_ASK_SUM_PIECE,   /* bytes first .. first + size - 1 of the sum `sum` */
    PASS_ASK_STATE,       /* the state after `sum`, or a later one */
    PASS_ASK_STATE_PIECE, /* bytes of the state that was offered */
    PASS_DONE,            /* no more of it is wanted */
    PASS_NONE,            /* what was asked for is not there */
    PASS_STATE,           /* the state after `sum` has `first` bytes, and this digest */
    PASS_PIECE,           /* bytes first .. first + size - 1 */
} pass_type;

typedef struct pass_message {
    pass_type type;
    uint64_t ticket; /* what it belongs to: counted by who asks */
    tarry_sum_id sum;
    uint64_t first;
    uint32_t size; /* of a piece, at most what both sides know */
    uint8_t digest[PASS_DIGEST];
    const uint8_t *bytes; /* PIECE: where they lie in what was decoded */
} pass_message;

/* Writes all but a PIECE's bytes, which follow, and gives back how many. */
size_t pass_encode(const pass_message *message, uint8_t bytes[PASS_MOST_HEAD]);

/*
 * A queue of small frames from any number of threads to one. The receiver takes all that is there
 * at once and reads it without the lock. Its first room is taken at creation; a sender that must
 * not allocate waits while it is full.
 */

typedef struct mailbox_batch {
    uint8_t *bytes; /* frames of `stride` bytes, each behind a mailbox_head */
    size_t stride;
    size_t count;
    size_t capacity;
} mailbox_batch;

typedef struct mailbox {
    tarry_allocator allocator;
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* the receiver waits for it */
    pthread_cond_t drained; /* senders wait for it */
    mailbox_batch incoming; /* under the lock */
    mailbox_batch taken;    /* the receiver's */
    bool waiting;           /* the receiver is waiting */
    bool woken;             /* by mailbox_wake */
    bool closed;
} mailbox;

typedef struct mailbox_frame {
    uint32_t sender;
    uint32_t size;
    const uint8_t *bytes;
} mailbox_frame;

/* Room for `capacity` >= 1 frames of at most max_size bytes. Errors: NO_MEMORY, SYSTEM; then
 * nothing is left to destroy. */
int mailbox_init(mailbox *box, size_t max_size, size_t capacity, const tarry_allocator *allocator);
void mailbox_destroy(mailbox *box);

/* Puts a frame of at most max_size bytes in, waiting for room. False if the mailbox is closed. */
bool mailbox_put(mailbox *box, uint32_t sender, const void *bytes, size_t size);
/* The same, but takes more memory instead of waiting, and for larger frames. False if the mailbox
 * is closed or there is none. */
bool mailbox_put_growing(mailbox *box, uint32_t sender, const void *bytes, size_t size);

/*
 * Takes what is there, waiting until there is something, the mailbox is woken or closed, or
 * until_ns of the monotonic clock (0: don't wait; TARRY_NEVER: no limit). Gives back how many
 * frames mailbox_frame_at can now read, until the next call.
 */
size_t mailbox_take(mailbox *box, uint64_t until_ns);
mailbox_frame mailbox_frame_at(const mailbox *box, size_t index);

/* Ends the receiver's wait, or its next one. */
void mailbox_wake(mailbox *box);
/* Ends all waits for good. */
void mailbox_close(mailbox *box);
bool mailbox_closed(mailbox *box);

#endif
