/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel over a link of its own. What stands below `link_channel_open` is for the files that
 * make it up: link_channel.c, link_channel_in.c, link_channel_out.c.
 */
#ifndef TCP_LINK_CHANNEL_H
#define TCP_LINK_CHANNEL_H

#include <pthread.h>

#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/link.h"

enum { CHANNEL_SHARED_BYTES = 64 << 10 };

typedef struct channel_settings {
    size_t most_waiting;  /* bytes of small frames that wait to go out */
    uint32_t most_length; /* longest body that is taken, of any kind, at first; the kinds' own
                             limits hold as well */
    uint8_t *shared; /* CHANNEL_SHARED_BYTES to read into; borrowed. One is enough for all channels
                        of a loop: nothing is left in it when a handler of the loop returns */
} channel_settings;

/* Takes over what link_open takes over. Errors: NO_MEMORY, SYSTEM; fd and ssl are closed then. */
int link_channel_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting,
                      const channel_settings *settings, const channel_handlers *handlers,
                      const tarry_allocator *allocator, channel **out);
/* More bytes of small frames, or fewer, may wait from now on. */
void link_channel_allow_waiting(channel *base, size_t most_waiting);

enum {
    /* A channel takes turns with the others: it moves about so much in each direction, then they
     * do. */
    LINK_CHANNEL_TURN_BYTES = 1 << 20,
    LINK_CHANNEL_FAILURE_BYTES = 160,
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

typedef struct link_channel {
    channel base;
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
    char failure[LINK_CHANNEL_FAILURE_BYTES];
} link_channel;

static inline link_channel *link_channel_of(channel *base)
{
    return (link_channel *)base;
}

static inline const link_channel *link_channel_of_const(const channel *base)
{
    return (const link_channel *)base;
}

/* Has the loop call link_channel.c's turn. */
void link_channel_wake(link_channel *self);
/* The channel ends; the handler is told in the next turn. `why`: NULL leaves it to the link. */
void link_channel_fail(link_channel *self, channel_end how, const char *why);
/* Frames may be read and handed on. */
static inline bool link_channel_takes(const link_channel *self)
{
    return !self->closed && !self->failed && !self->leaving && !self->in.waiting &&
           !self->in.stopped;
}

/* Reads for one turn. */
void link_channel_read_turn(link_channel *self);
/* Reads and forgets. False: the stream is over. */
bool link_channel_discard(link_channel *self);
void link_channel_free_in(link_channel *self);

/* Writes for one turn. Calls no handler. */
void link_channel_write_turn(link_channel *self);
/* Releases what has been sent. */
void link_channel_release(link_channel *self);
/* Drops all loads that have not begun, and makes the bytes of that which has its own. False: no
 * memory for them. */
bool link_channel_settle(link_channel *self);
bool link_channel_has_sent_all(const link_channel *self);
void link_channel_free_out(link_channel *self);

/* Methods that link_channel_out.c has. */
bool link_channel_send(channel *base, const uint8_t *frame, size_t size);
size_t link_channel_send_aside(channel *base, const uint8_t *frame, size_t size);
bool link_channel_send_load(channel *base, const uint8_t *prefix, size_t size,
                            const channel_load *load);
bool link_channel_drop(channel *base, uint32_t tag);
bool link_channel_detach(channel *base, uint32_t tag);
size_t link_channel_loads(const channel *base);

#endif
