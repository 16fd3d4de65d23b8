/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays between the server and its workers: as many workers, or relays, below each of them as its
 * fan-in, in tiers, until at most RELAYS_TOP are left below the server. Parameters go down in
 * blocks, of which a relay sends each to all below it before the next one; they are there at the
 * same time. Coded parts are added up on the way: a relay sends a block once it has it from all
 * below that are to send, so that d numbers leave it in a round. Relays have links as workers do.
 *
 * Messages without vectors take a latency per tier and one more, and pass no card.
 */
#ifndef SIM_RELAYS_H
#define SIM_RELAYS_H

#include "sim/links/network.h"

enum { RELAYS_TOP = 2, RELAYS_BLOCK_BYTES = 131072 };

typedef struct relay {
    network_node card;
    uint32_t parent;                    /* UINT32_MAX: the server */
    uint32_t children;                  /* workers or relays */
    uint32_t first_worker, past_worker; /* below it */

    uint32_t awaited;           /* children whose parts are to come */
    uint32_t got;               /* of these */
    uint64_t begins_ns, has_ns; /* when it has the first block of what came, and all */

    uint64_t announced_ns;           /* the parameters that it passed on last; NEVER: none yet */
    uint64_t below_ns, all_below_ns; /* when the first block and all of these are below it */
} relay;

typedef struct relays {
    tarry_allocator allocator;
    uint32_t fan_in;
    uint32_t tiers;
    uint32_t count;
    uint32_t top; /* how many are below the server, the last ones */
    relay *items; /* those above workers first */
    relay server; /* what the same words say of it */
} relays;

/* Between the server and all workers of the settings; fan_in >= 2. Errors: NO_MEMORY; destroy it in
 * any case. */
int relays_init(relays *all, const tarry_sim_settings *settings, uint32_t workers,
                const tarry_allocator *allocator);
void relays_destroy(relays *all);

/* What a message without a vector takes. */
uint64_t relays_hops(const relays *all, network *state);
/* The server sends parameters of so many bytes to all now; gives back when the worker has them. */
uint64_t relays_down(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes);

/* No part is to come. */
void relays_forget(relays *all);
/* One of the worker is. */
void relays_expect(relays *all, uint32_t worker);
/*
 * The worker sends its part of so many bytes now, for a sum of `sum_bytes`. True: it was the last
 * one of those below relay *top, whose sum the server has at *there_ns. *left_ns: when the part has
 * left the worker.
 */
bool relays_up(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes,
               uint64_t sum_bytes, uint64_t *left_ns, const relay **top, uint64_t *there_ns);

#endif
