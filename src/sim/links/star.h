/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and the workers, all of which pass the server's card. */
#ifndef SIM_STAR_H
#define SIM_STAR_H

#include "sim/links/network.h"

/* Whether the card delays nothing, so that star_receive need not be asked. */
static inline bool star_card_is_free(const network *state)
{
    return state->server.in.ns_per_byte == 0;
}

/* With settings.card_shared: the next `count` large messages of star_down, each of `bytes`, all
 * begin now and share the card; without, this does nothing. */
void star_share(network *state, uint64_t now, uint32_t count, uint64_t bytes);
/* The server sends `bytes` to a worker now; gives back when the last one is there. */
uint64_t star_down(network *state, uint32_t worker, uint64_t now, uint64_t bytes);

/* A worker sends `bytes` now; gives back when the last one has left it. *first_ns: when the first
 * one is at the server's card, and star_receive is to be asked, in the order of these times. */
uint64_t star_up(network *state, uint32_t worker, uint64_t now, uint64_t bytes, uint64_t *first_ns);
/* The first of `bytes` is at the card now, the last one left the worker at left_ns (from star_up);
 * gives back when the server has the message. */
uint64_t star_receive(network *state, uint64_t now, uint64_t bytes, uint64_t left_ns);

#endif
