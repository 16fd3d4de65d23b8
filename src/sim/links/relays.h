/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays between the server and its workers: as many workers, or relays, below each of them as its
 * fan-in, in tiers, until at most RELAYS_TOP are left below the server. Parameters go down in
 * blocks, of which a relay sends each to all below it before the next one; they are there at the
 * same time. Coded parts are added up on the way: a relay sends a block once it has it from all
 * below that are to send, so that d numbers leave it in a round. Relays have links as workers do.
 *
 * Messages without vectors take a latency per tier and one more, and pass no card. What goes up
 * leaves a relay at multiples of batch_ns, all that is there then together.
 *
 * Relays above workers may die. What would pass one from then on is lost, and those below it get
 * other parents, one by one. A part that one of them sends once more is not added up: the others'
 * sums may have left. It goes up by itself.
 */
#ifndef SIM_RELAYS_H
#define SIM_RELAYS_H

#include "sim/links/network.h"

enum { RELAYS_TOP = 2, RELAYS_BLOCK_BYTES = 131072 };

enum { RELAYS_SERVER = UINT32_MAX }; /* in place of a relay */

typedef struct relay {
    network_node card;
    uint32_t parent;   /* or RELAYS_SERVER */
    uint32_t children; /* workers or relays */
    uint64_t dies_ns;  /* NEVER: it lives */

    uint32_t awaited;           /* children whose parts are to come */
    uint32_t got;               /* of these */
    bool passed;                /* their sum has left it, or will before it dies */
    uint64_t begins_ns, has_ns; /* when it has the first block of what came, and all */

    uint64_t batch_ns, batch_round; /* what came of it to the server last, */
    uint32_t batch;                 /* and how many of one batch */

    uint64_t announced_ns;           /* the parameters that it passed on last; NEVER: none yet */
    uint64_t below_ns, all_below_ns; /* when the first block and all of these are below it */
} relay;

typedef struct relays {
    tarry_allocator allocator;
    uint32_t fan_in;
    uint32_t tiers;
    uint32_t lowest; /* how many are above workers, the first ones */
    uint64_t batch_ns;
    uint32_t *parents; /* by worker */
    uint32_t count;
    uint32_t top; /* how many are below the server, the last ones */
    relay *items; /* those above workers first */
    relay server; /* as the parent of the top; its card is the network's */
} relays;

/* Between the server and all workers of the settings; fan_in >= 2. Errors: NO_MEMORY; destroy it in
 * any case. */
int relays_init(relays *all, const tarry_sim_settings *settings, uint32_t workers,
                const tarry_allocator *allocator);
void relays_destroy(relays *all);

/* The relay of the top that is above that one, or is it. */
uint32_t relays_top(const relays *all, uint32_t index);
/* Whether the relay above the worker is dead. */
bool relays_cut(const relays *all, uint32_t worker, uint64_t now);
/* The worker is below that relay from here on. */
void relays_adopt(relays *all, uint32_t worker, uint32_t parent);

/* When a message without a vector that is sent now is at the other end; NEVER: it is lost. */
uint64_t relays_tell(const relays *all, network *state, uint32_t worker, uint64_t now);
uint64_t relays_say(const relays *all, network *state, uint32_t worker, uint64_t now);

/* The server sends parameters of so many bytes to all now; gives back when the worker has them,
 * NEVER if they are lost. */
uint64_t relays_down(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes);
/* The same to a worker that is there once more, which gets its relay's. */
uint64_t relays_resend(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes);

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
/* It sends its part by itself; when the server has it, NEVER if it is lost. */
uint64_t relays_up_alone(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes,
                         uint64_t *left_ns);
/* Relay `index`, which is above workers, dies now: unless their sum has left it, no part of those
 * below it is to come. True as for relays_up: nothing else was waited for. */
bool relays_lose(relays *all, network *state, uint32_t index, uint64_t now, uint64_t sum_bytes,
                 const relay **top, uint64_t *there_ns);

#endif
