/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of cards, each of which gives all messages that pass it an equal share, as
 * connections have: a short message does not wait for long ones that came before. A message has
 * passed once its share came to what it takes alone.
 *
 * What waits for its share of one card does not hold up another one (as in network.h).
 */
#ifndef SIM_SHARING_H
#define SIM_SHARING_H

#include "sim/links/network.h"
#include "sim/links/sending.h"

/* A message at a card; of those of a card the one that ends first is in front. */
typedef struct shared_message {
    double end;             /* as `served` of its card, when it has passed */
    uint32_t before, after; /* at the same card; of free places `after` is the next one */
    uint32_t mark;          /* the caller's */
} shared_message;

typedef struct shared_card {
    network_way *way;
    uint64_t begins_ns;   /* it has not been idle since; */
    double now, served;   /* the nanoseconds since then, and those that each message had */
    uint32_t passing;     /* messages, */
    uint32_t first, last; /* of which these are the ends */
} shared_card;

typedef struct sharing {
    tarry_allocator allocator;
    shared_card *cards;
    sending ends; /* cards that messages pass, by when the next one has passed */
    shared_message *messages;
    uint32_t usual;            /* messages at the same time */
    uint32_t room, used, free; /* free: the first of those that were used and are not */
} sharing;

/* `count` cards, which the caller names by sharing_card, and room for as many messages at the same
 * time as usual; there may be more. Errors: NO_MEMORY; destroy it in any case. */
int sharing_init(sharing *all, uint32_t count, uint32_t usual, const tarry_allocator *allocator);
void sharing_destroy(sharing *all);
void sharing_card(sharing *all, uint32_t place, network_way *way);

/* `bytes` begin to pass the card now, which is no earlier than any time before. Errors: NO_MEMORY.
 */
int sharing_add(sharing *all, uint32_t place, uint64_t now, uint64_t bytes, uint32_t mark);
/* When the next message has passed its card; TARRY_NEVER: there is none, or it never will. */
static inline uint64_t sharing_next(const sharing *all)
{
    return all->ends.count > 0 ? all->ends.first_ns[sending_first(&all->ends)] : TARRY_NEVER;
}
/* It has: of which card it is, and its mark. */
uint32_t sharing_end(sharing *all, uint32_t *mark);

#endif
