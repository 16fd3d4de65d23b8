/* SPDX-License-Identifier: Apache-2.0 */
/* Channels, for the files that make them up: channel.c and channel_in.c. */
#ifndef TCP_CHANNEL_STATE_H
#define TCP_CHANNEL_STATE_H

#include <pthread.h>

#include "runtime/tcp/net/channel.h"

enum {
    /* A channel takes turns with the others: it moves about so much in each direction, then they
     * do. */
    CHANNEL_TURN_BYTES = 1 << 20,
    CHANNEL_FAILURE_BYTES = 160,
};

/* Bytes in: frames are parsed where they lie in the shared buffer. What is left of it when a turn
 * is over is kept: part of a frame, or, while waiting, a large frame's beginning and all that came
 * behind it. */
typedef struct channel_in {
    uint8_t *kept;
    size_t kept_size, kept_capacity;
    bool waiting; /* begin said so */
    bool stopped; /* a handler said so */
    bool resumed; /* kept is to be parsed once more */
    /* The large frame whose bytes are coming: `left` > 0 of them. */
    wire_head head;
    uint8_t fixed[CHANNEL_PREFIX_BYTES];
    uint8_t *place; /* of the next one; NULL: nowhere */
    size_t left;
    bool after_large; /* another large frame is likely to follow */
    uint64_t received;
} channel_in;

typedef struct channel_item channel_item;

/* A large frame to be sent. */
struct channel_item {
    channel_item *next;
    channel_load load;
    uint8_t *copy; /* the load's bytes from `copied` on, once they are its own */
    size_t copied;
    size_t prefix_size;
    size_t sent; /* of prefix and load */
    bool begun;  /* nothing may go ahead of it any more */
    uint8_t prefix[CHANNEL_PREFIX_BYTES];
};

typedef struct channel_out {
    uint8_t *small; /* those from `start` to `end` wait */
    size_t start, end, capacity;
    channel_item *first, **last;
    channel_item *finished; /* sent, still to be released */
    size_t loads;
    bool broken;          /* nothing can be written */
    bool busy;            /* drained is to be called */
    bool blocked;         /* the link will say when it can be written to */
    pthread_mutex_t gate; /* over all writing, and over a change of this: */
    bool waits;           /* something has to go out before what comes now; the loop's to set */
    _Atomic uint64_t sent;
} channel_out;

struct channel {
    tcp_link *link;
    uv_idle_t turn; /* runs while there is something to do without the socket's saying so */
    uv_timer_t patience;
    unsigned handles;
    tarry_allocator allocator;
    channel_settings settings;
    channel_handlers handlers;
    channel_in in;
    channel_out out;
    bool open;   /* `opened` was called */
    bool failed; /* `ended` is to be called, or was */
    bool told;   /* it was */
    bool leaving, left, closed;
    channel_end how;
    char failure[CHANNEL_FAILURE_BYTES];
};

/* The channel ends; the handler is told in the next turn. `why`: NULL leaves it to the link. */
void channel_fail(channel *self, channel_end how, const char *why);
/* Frames may be read and handed on. */
static inline bool channel_takes(const channel *self)
{
    return !self->closed && !self->failed && !self->leaving && !self->in.waiting &&
           !self->in.stopped;
}

/* Reads for one turn. */
void channel_read_turn(channel *self);

/* Drops all loads that have not begun, and makes the bytes of that which has its own. False: no
 * memory for them. */

#endif
