/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How frames travel between the coordinator and the workers. A process has one end, which one
 * thread uses, and knows its peers by number: a worker by its own, the coordinator by
 * TRANSPORT_COORDINATOR. Frames of one connection arrive in order and once, or the connection ends.
 * memory_transport.h is the implementation for worlds and tests.
 */
#ifndef WORLDS_TRANSPORT_H
#define WORLDS_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_COORDINATOR UINT32_MAX

/* A message as the codec writes it, and the numbers that travel with it. */
typedef struct transport_frame {
    const uint8_t *head;
    size_t head_size;
    const void *body; /* NULL if body_size is 0 */
    size_t body_size;
} transport_frame;

typedef enum transport_event_type {
    TRANSPORT_QUIET, /* nothing has happened until the time that poll was given */
    TRANSPORT_WOKEN, /* transport_wake was called */
    TRANSPORT_HEARD, /* bytes of the peer have arrived, but no whole frame: it is alive */
    TRANSPORT_FRAME,
    TRANSPORT_GONE, /* the connection with the peer has ended */
} transport_event_type;

typedef struct transport_event {
    transport_event_type type;
    uint32_t peer;         /* of HEARD, FRAME and GONE */
    uint32_t connection;   /* the same: counts the connections with this peer, from 1 */
    transport_frame frame; /* of FRAME; the transport's, until the next poll of this end */
} transport_event;

typedef struct transport transport;

typedef struct transport_functions {
    void (*send)(transport *self, uint32_t peer, const transport_frame *frame);
    void (*poll)(transport *self, uint64_t until_ns, transport_event *event);
    void (*wake)(transport *self);
    uint64_t (*now)(const transport *self);
    void (*close)(transport *self, uint32_t peer);
} transport_functions;

/* The first member of each implementation's end. */
struct transport {
    const transport_functions *functions;
};

/* Copies the frame and sends it. A frame to a peer that is not connected is dropped. */
static inline void transport_send(transport *self, uint32_t peer, const transport_frame *frame)
{
    self->functions->send(self, peer, frame);
}

/* Waits for the next event, until `until_ns` of the transport's clock at the latest. */
static inline void transport_poll(transport *self, uint64_t until_ns, transport_event *event)
{
    self->functions->poll(self, until_ns, event);
}

/* Makes the poll in progress, or else the next one, return WOKEN: from any thread. Several calls
 * before that may give one WOKEN. */
static inline void transport_wake(transport *self)
{
    self->functions->wake(self);
}

/* Nanoseconds of a clock that never goes back. */
static inline uint64_t transport_now(const transport *self)
{
    return self->functions->now(self);
}

/* Ends the connection with the peer, which hears GONE; this end hears nothing more of it. Does
 * nothing if there is none. */
static inline void transport_close(transport *self, uint32_t peer)
{
    self->functions->close(self, peer);
}

#endif
