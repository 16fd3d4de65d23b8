/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When messages arrive. Every worker has a link of its own, each way, on which one message follows
 * the other at the link's bandwidth, and after the latency. All links end in the server's network
 * card, which carries one message after the other too, each way, in the order in which they begin
 * to pass it (first come, first served; on real networks transfers share a card, which ends the
 * last one at the same time, and the others later). A message passes link and card at the same
 * time (cut-through): alone, it takes latency + bytes / the lower of the two bandwidths. What
 * waits for the card doesn't hold up its link.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>

#include <tarry/sim.h>

typedef struct network_link {
    uint64_t down_free_ns, up_free_ns; /* when the messages so far have passed it, each way */
} network_link;

typedef struct network {
    uint64_t latency_ns;
    double link_ns_per_byte, card_ns_per_byte;
    uint64_t card_out_free_ns, card_in_free_ns;
} network;

network network_make(const tarry_sim_link *link, double server_bytes_per_second);

/* Whether the card delays nothing, so that network_through_card need not be asked. */
static inline bool network_card_is_free(const network *state)
{
    return state->card_ns_per_byte == 0;
}

/* The server sends `bytes` to a worker now; gives back when the last one is there. */
uint64_t network_down(network *state, network_link *link, uint64_t now, uint64_t bytes);

/* A worker sends `bytes` now; gives back when the last one has left it. *first_ns: when the first
 * one is at the server's card. */
uint64_t network_up(const network *state, network_link *link, uint64_t now, uint64_t bytes,
                    uint64_t *first_ns);
/* The first of `bytes` is at the card now, the last one left the worker at left_ns (from
 * network_up); gives back when the server has the message. */
uint64_t network_through_card(network *state, uint64_t now, uint64_t bytes, uint64_t left_ns);

/* a + b, or TARRY_NEVER if that is more. */
static inline uint64_t network_after(uint64_t a, uint64_t b)
{
    return b < TARRY_NEVER - a ? a + b : TARRY_NEVER;
}

#endif
