/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport in memory, in virtual time: the ends of a coordinator and its workers, which one
 * thread plays. Whoever owns the network decides when a frame arrives, and may break the promises
 * of transport.h: let frames overtake each other, or arrive twice. What is on its way when a
 * connection ends still arrives; its number shows that it is of an earlier one.
 */
#ifndef WORLDS_MEMORY_TRANSPORT_H
#define WORLDS_MEMORY_TRANSPORT_H

#include <stdbool.h>

#include <tarry/allocator.h>

#include "worlds/transport.h"

typedef struct memory_network memory_network;

typedef struct memory_rules {
    void *user;
    /* Carries a frame: calls memory_network_deliver for each time that it arrives. NULL: it arrives
     * at once, and once. */
    void (*carry)(void *user, uint32_t from, uint32_t to, const transport_frame *frame);
    /* When `to` hears that `from` has closed their connection; TARRY_NEVER: it does not. NULL: at
     * once. */
    uint64_t (*notice)(void *user, uint32_t from, uint32_t to);
    const uint64_t *clock; /* what transport_now says; moved by the owner alone */
    uint64_t *order;       /* counts events, those of the owner, too: ties in time follow it */
    uint32_t workers;
    size_t most_head, most_body; /* bytes of a frame */
    size_t most_events;          /* on their way at a time */
} memory_rules;

/* What is on its way to an end. */
typedef struct memory_event {
    uint64_t time, order;
    transport_event_type type;
    uint32_t from, to;
    uint32_t connection;
    size_t head_size, body_size;
} memory_event;

/* Nobody is connected. Errors: NO_MEMORY. */
int memory_network_create(const memory_rules *rules, const tarry_allocator *allocator,
                          memory_network **out);
void memory_network_free(memory_network *it); /* NULL is allowed */
/* As after memory_network_create. */
void memory_network_reset(memory_network *it, uint32_t workers);

/* The end of a worker, or of TRANSPORT_COORDINATOR; the network's. */
transport *memory_network_end(memory_network *it, uint32_t who);

/* The worker is connected to the coordinator from now on, over a new connection. */
void memory_network_connect(memory_network *it, uint32_t worker);
/* Whether it is; and the number of its connection, or of the last one. */
bool memory_network_connected(const memory_network *it, uint32_t worker);
uint32_t memory_network_connection(const memory_network *it, uint32_t worker);

/* For memory_rules.carry: the frame arrives at `time`; bytes of one do. */
void memory_network_deliver(memory_network *it, uint64_t time, uint32_t from, uint32_t to,
                            const transport_frame *frame);
void memory_network_hear(memory_network *it, uint64_t time, uint32_t from, uint32_t to);

/* What is polled next by any end, in the order of time and `order`; NULL: nothing is on its way. */
memory_event *memory_network_next(const memory_network *it);
/* What is on its way, in no order; NULL if there are no more than `index`. */
memory_event *memory_network_look(const memory_network *it, size_t index);
/* The body of a FRAME. */
void *memory_event_body(memory_event *of);

#endif
