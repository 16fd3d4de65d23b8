/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large things on their way to one peer: the round's parameters, the plan, the job, the data of
 * chunks. They are sent in pieces out of the memory where they lie, a few at a time, so that small
 * frames pass between them and a slow peer costs no more than a fast one.
 */
#ifndef TCP_OUTGOING_H
#define TCP_OUTGOING_H

#include "compress/view.h"
#include "runtime/tcp/net/channel.h"

enum {
    OUTGOING_PIECE = 1 << 16, /* bytes in one frame */
    OUTGOING_WINDOW = 16,     /* pieces that wait in the channel */
    OUTGOING_STREAMS = 40,    /* things that wait */
};

/* What is dropped together. */
typedef enum outgoing_tag {
    OUTGOING_PARAMETERS = 1,
    OUTGOING_PLAN,
    OUTGOING_JOB,
    OUTGOING_DATA,
} outgoing_tag;

typedef struct outgoing_stream {
    outgoing_tag tag;
    uint64_t round;       /* PARAMETERS */
    uint32_t index;       /* DATA */
    const uint8_t *bytes; /* borrowed until sent or dropped */
    const view *from;     /* PARAMETERS: in their place its pieces; else NULL */
    uint64_t size, sent;
} outgoing_stream;

typedef struct outgoing {
    outgoing_stream streams[OUTGOING_STREAMS]; /* a ring */
    uint32_t first, count;
    view_reader reader; /* what the peer has of a view */
} outgoing;

/* False: too many wait. */
bool outgoing_add(outgoing *self, const outgoing_stream *stream);
/* Fills the channel's window; `released` and `owner` as in channel_load. False: the channel ends.
 */
bool outgoing_pump(outgoing *self, channel *to, void (*released)(void *user, void *owner),
                   void *owner);
/* Nothing of the tag is sent any more, nor read once this returns. False as above. */
bool outgoing_drop(outgoing *self, channel *to, outgoing_tag tag);
/* Whether anything of the tag waits, or is on its way for all that is known here. */
bool outgoing_has(const outgoing *self, outgoing_tag tag);

#endif
