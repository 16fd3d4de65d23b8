/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When messages arrive. Every node, the server or a worker, has a network card that carries one
 * message after the other, each way, in the order in which they begin to pass it (first come, first
 * served; on real networks transfers share a card, which ends the last one at the same time, and
 * the others later). A message passes both cards at the same time (cut-through), one latency
 * apart: alone, it takes latency + bytes / the lower of the two bandwidths. What waits for the
 * card that it goes to does not hold up the one that it comes from.
 *
 * The server's card carries the flows of many links, and a few bytes of one flow need not wait for
 * the vectors of the others: messages of up to NETWORK_SMALL bytes pass it one after the other
 * among themselves, and all larger ones are so much later. On a worker's own card everything keeps
 * its turn.
 *
 * In a grid cards are shared in place of that (sharing.h).
 *
 * Which messages a sum is made of is told by star.h, ring.h, direct.h, grid.h and tree.h.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>

#include <tarry/allocator.h>
#include <tarry/sim.h>

#include "sim/links/jitter.h"

#define NETWORK_SMALL 65536

/* One direction of a card. */
typedef struct network_way {
    double ns_per_byte;
    uint64_t message_ns; /* that each message takes besides */
    uint64_t bytes;      /* of all messages so far */
    uint64_t free_ns;    /* when the messages so far have passed it */
    bool shared;         /* small messages pass by large ones, */
    uint64_t small_ns;   /* and have passed then */
} network_way;

typedef struct network_node {
    network_way in, out;
} network_node;

typedef struct network {
    tarry_allocator allocator;
    uint64_t latency_ns; /* between any two nodes */
    jitter jitter;
    network_node server;
    bool card_shared;   /* see star_share */
    uint32_t together;  /* messages from the server that still share its card, */
    uint64_t begins_ns; /* from then on, */
    uint64_t leaves_ns; /* and have left it then */
    network_node *workers;
} network;

/* The links of the settings, all free from time 0 on. Errors: NO_MEMORY; destroy it in any case. */
int network_init(network *state, const tarry_sim_settings *settings, uint32_t workers,
                 const tarry_allocator *allocator);
void network_destroy(network *state);

/* Nothing waits on the worker's card any more. */
void network_renew(network *state, uint32_t worker, uint64_t now);

/* What a message of few bytes takes that passes no card. */
uint64_t network_hop(network *state);
/* `bytes` begin to pass the card `out` now, or when it is free, and leave it a jitter later; gives
 * back when the last one has left. *first_ns: when the first one is at the card that it goes to. */
uint64_t network_leave(network *state, network_way *out, uint64_t now, uint64_t bytes,
                       uint64_t *first_ns);
/* The first of `bytes` is at the card `in` at first_ns, the last one leaves the other card at
 * left_ns (from network_leave); gives back when all are there. */
uint64_t network_arrive(const network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                        uint64_t left_ns);

/* What the bytes take to pass it. */
uint64_t network_time(const network_way *way, uint64_t bytes);
/* The same of several messages, of which each has as many bytes as the others, one behind the
 * other: *first_ns and first_ns are of the first one. The longest of their jitters comes on top at
 * the end. */
uint64_t network_leave_many(const network *state, network_way *out, uint64_t now, uint64_t bytes,
                            uint64_t messages, uint64_t *first_ns);
uint64_t network_arrive_many(network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                             uint64_t messages, uint64_t left_ns);

/* a + b, or TARRY_NEVER if that is more. */
static inline uint64_t network_after(uint64_t a, uint64_t b)
{
    return b < TARRY_NEVER - a ? a + b : TARRY_NEVER;
}

static inline uint64_t network_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
