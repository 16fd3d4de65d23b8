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
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/sim.h>

#include "base/random.h"
#include "compress/compress.h"

/*
 * What each message waits besides its link's latency, before it leaves: a lognormal time, drawn
 * anew for each. It holds up no card.
 */

typedef struct jitter {
    double median_ns; /* 0: nothing waits */
    double deviation; /* of the logarithm */
    random_stream draws;
} jitter;

jitter jitter_make(const tarry_sim_settings *settings);
/* Of the next message. */
uint64_t jitter_draw(jitter *state);
/* More than any that is likely to be drawn. */
uint64_t jitter_most(const jitter *state);
/* The longest of the next so many messages; 0 of none. */
uint64_t jitter_longest(jitter *state, uint64_t messages);

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

/* a + b, or TARRY_NEVER if that is more. */
static inline uint64_t network_after(uint64_t a, uint64_t b)
{
    return b < TARRY_NEVER - a ? a + b : TARRY_NEVER;
}

static inline uint64_t network_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Those who send, by when the first byte of what they send is at the card that it goes to; at equal
 * times by place: the order in which cards serve them. */

typedef struct sending {
    uint32_t *heap;     /* count places */
    uint64_t *first_ns; /* by place */
    uint32_t count;
} sending;

/*
 * A sum that everyone of a group gets over the links among them: worked out message by message, or
 * in flows where a direct one has too many messages. Adding up takes no time.
 */

typedef struct group_sum {
    const uint32_t *members; /* workers, in ascending order; NULL: workers 0..count-1 */
    uint32_t count;          /* >= 1 */
    uint64_t dimension;      /* d, of 4 bytes each but for the form */
    uint32_t parts;          /* l: each member has a coded part of ceil(d / l) numbers */
    compress_form up, down;  /* of coded parts on their way to owners, and of what these have
                                summed on its way back, with one part; not in a ring */
} group_sum;

/*
 * Member i begins at ready_ns[i]. done_ns[i], by member: when it has the whole sum. *moved: the
 * bytes that all of them send. `way` is not TARRY_SIM_STAR. Errors: NO_MEMORY; the links are no
 * good for anything else then.
 */
int group_sum_run(network *state, tarry_sim_way way, const group_sum *sum, const uint64_t *ready_ns,
                  uint64_t *done_ns, uint64_t *moved);

/*
 * A direct sum of too many messages to follow each: what a member sends on a way is one flow, and
 * so is what it gets. Flows to one member share its card; who gets begins when the last of the
 * others does, and has all when these have sent all and its card has carried all. If members begin
 * at the same time and have equal links, that is the time of direct.h to the nanosecond.
 */

/* Messages of a sum that are followed one by one. */
#define FLOWS_MOST_MESSAGES (UINT64_C(1) << 25)

/* How many messages a direct sum of so many members has. */
uint64_t flows_messages(uint32_t count);
/* As group_sum_run. */
int flows_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
              uint64_t *moved);

/*
 * Direct all-reduce, as Tarry's own engine does it (tarry/engine.h): of n members, member i owns
 * slice i of every part's coordinates. Everyone sends its coded part's slice i to i, which decodes
 * the l parts there once it has all of them and is ready (reduce-scatter), and sends the l slices
 * of the sum to everybody (all-gather). Per member and direction these are
 * (d / l + d) (n - 1) / n numbers.
 *
 * Member i sends to i + 1, i + 2, ... in turn, so that nobody gets more at once than its link
 * carries, first its coded part, then its slices of the sum. With equal links and everybody ready
 * at once it takes 2 latency + 4 (1 + 1/l) d (n - 1) / n / bandwidth: the links are busy all the
 * time, so that blocks smaller than slices, in which an engine may do the same, would change no
 * more than the latency.
 */

/* As group_sum_run. */
int direct_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
               uint64_t *moved);

/*
 * Ring all-reduce of d numbers over n members (reduce-scatter and all-gather: Patarasuk and Yuan,
 * JPDC 2009): 2 (n - 1) steps, in each of which every member sends a segment of d / n numbers to
 * the next one: first the sum of the segment so far, then the whole sum. A member sends as soon as
 * it has the segment of the step before and is ready, so that steps begin wherever they can. With
 * equal links and everybody ready at once it takes 2 (n - 1) (latency + 4 d / n / bandwidth).
 *
 * With parts, sums on the way need all of them at every step: no bytes are saved.
 */

/* As group_sum_run. */
int ring_group_sum(network *state, const group_sum *sum, const uint64_t *ready_ns,
                   uint64_t *done_ns, uint64_t *moved);

/* Messages between the server and the workers, all of which pass the server's card. */

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
