/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's end of a trunk: each of its lanes is a channel, so that whoever deals with
 * connections deals with a relay's children in the same way. The trunk's own channel is the
 * caller's, who hands on the frames of lanes that come over it, and closes it. The loop thread's.
 *
 * A lane has no drained and no opened: it is open when it is made. What is large goes down a trunk
 * once for all lanes, so that channel_send_load is not for lanes: see lane_announce.
 */
#ifndef TCP_LANES_H
#define TCP_LANES_H

#include "protocol/wire/wire_trunk.h"
#include "runtime/tcp/net/channel.h"

typedef struct lanes lanes;

typedef struct lanes_handlers {
    void *user;
    /*
     * The relay has opened a lane; `words` is borrowed. To be taken by lane_take from within, or
     * closed. False: nothing more is read of the trunk.
     */
    bool (*opened)(void *user, channel *lane, const wire_lane_open *words);
} lanes_handlers;

/* What became of a frame. */
typedef enum lanes_verdict {
    LANES_TAKEN,
    LANES_STOP,     /* a handler wants nothing more to be read of the trunk */
    LANES_NOT_HERE, /* the relay breaks the rules: the trunk is to be ended */
} lanes_verdict;

/* The trunk's channel is borrowed, until lanes_cut. Errors: NO_MEMORY. */
int lanes_create(channel *trunk, const lanes_handlers *handlers, const tarry_allocator *allocator,
                 lanes **out);
/* Nothing is sent any more, and no handler called but `ended`: the trunk's channel is about to be
 * closed. May be called from within a handler. NULL is allowed. */
void lanes_cut(lanes *self);
/* After lanes_cut: all lanes end (CHANNEL_ADRIFT, for this reason). Not from within a handler. NULL
 * is allowed. */
void lanes_end(lanes *self, const char *why);
/* All lanes have ended, and were closed. NULL is allowed. */
void lanes_free(lanes *self);

/* A small frame that came over the trunk, of kind LANE_OPEN, LANE, BATCH, LANE_END or HEARD. */
lanes_verdict lanes_frame(lanes *self, const wire_head *head, const uint8_t *body);
/* A LANE_PART begins, as channel_handlers.begin; *verdict is set with LANES_TAKEN. */
lanes_verdict lanes_begin(lanes *self, const wire_head *head, const uint8_t *fixed, size_t bytes,
                          channel_verdict *verdict, void **place);
/* It is there. */
lanes_verdict lanes_complete(lanes *self, const wire_head *head, const uint8_t *fixed);

/* How many are open. */
uint32_t lanes_count(const lanes *self);

/* ---- of a lane, for which `lanes_handlers.opened` gives a channel ---- */

/* From within `opened`: what comes goes to these handlers. certificate: the child's, taken over; or
 * NULL. `begin` never says CHANNEL_WAIT: the relay sends WIRE_LANE_WINDOW parts at most. */
void lane_take(channel *lane, const channel_handlers *handlers, X509 *certificate);
/* The place that `begin` gave for a part is free again. Parts that were taken to nowhere count by
 * themselves. */
void lane_part_taken(channel *lane);
/* Parts for which `begin` gave a place that lane_part_taken has not been called for. */
uint32_t lane_parts_out(const channel *lane);
/* Tells the relay which blob the child is to get; `blob->lane` is filled in. False: it ended. */
bool lane_announce(channel *lane, const wire_lane_blob *blob);
uint32_t lane_number(const channel *lane);

#endif
