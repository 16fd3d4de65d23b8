/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer goes through as time passes. */
#include "runtime/tcp/server/peer.h"

#define HELLO_NS UINT64_C(10000000000) /* until HELLO has come */

enum {
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
};

/* A viewer that doesn't take what waits: for how long is what counts. */
static bool takes_nothing(const peer *self)
{
    return self->state == PEER_VIEWER && !self->drained;
}

void peer_beat(peer *self, uint64_t now)
{
    if (self->state == PEER_NEW || self->state == PEER_OVER || takes_nothing(self))
        return;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    self->sent_ns = now;
    channel_send(self->channel, frame, wire_heartbeat_encode(frame));
}

void peer_beat_aside(peer *self, uint64_t now)
{
    if (self->state == PEER_NEW || self->state == PEER_OVER || takes_nothing(self) ||
        now - self->sent_ns < self->all->silence_ns / HEARTBEAT_FRACTION)
        return;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_heartbeat_encode(frame);
    size_t sent = channel_send_aside(self->channel, frame, size);
    if (sent == size)
        self->sent_ns = now;
    else if (sent > 0)
        peer_defer(self, PEER_DROP); /* no frame makes sense behind a piece of one */
}

static void beat_if_due(peer *self, uint64_t now)
{
    uint64_t sent = peer_sent(self);
    if (sent != self->sent_bytes) {
        self->sent_bytes = sent;
        self->sent_ns = now;
    } else if (now - self->sent_ns >= self->all->silence_ns / HEARTBEAT_FRACTION) {
        peer_beat(self, now);
    }
}

void peer_tick(peer *self, uint64_t now)
{
    const peer_events *events = &self->all->events;
    uint64_t silence = self->all->silence_ns;
    if (self->waiting)
        peer_hear(self, true);
    uint64_t quiet = now - self->heard_ns;
    switch (self->state) {
    case PEER_NEW:
        if (now - self->since_ns > HELLO_NS) {
            peer_say_refused(self, "did not say who it is in time");
            peer_end(self, 0);
        }
        return;
    case PEER_WELCOMED:
        if (quiet > HELLO_NS && quiet / 2 > silence) {
            peer_say_refused(self, "fell silent before it was ready");
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_READY:
    case PEER_TURNING: /* during a round it is the machine that looks */
        if (quiet / 2 > silence && events->silent(events->user, self)) {
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_VIEWER:
        if (takes_nothing(self) && now - self->sent_ns > HELLO_NS) {
            peer_say_refused(self, "does not take what is sent to it");
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_OVER:
        return;
    }
    beat_if_due(self, now);
}
