/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_MAILBOX_H
#define RUNTIME_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

/*
 * A queue of small frames from any number of threads to one. The receiver takes all that is there
 * at once and reads it without the lock. Its first room is taken at creation.
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

/* Puts a frame in, and takes more memory if there is no room for it. False if the mailbox is
 * closed, or there is no memory. */
bool mailbox_put(mailbox *box, uint32_t sender, const void *bytes, size_t size);

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
