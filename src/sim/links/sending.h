/* SPDX-License-Identifier: Apache-2.0 */
/* Those who send, by when the first byte of what they send is at the card that it goes to; at equal
 * times by place: the order in which cards serve them. Also cards, by their next event. */
#ifndef SIM_SENDING_H
#define SIM_SENDING_H

#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

typedef struct sending {
    uint32_t *heap;     /* count places */
    uint32_t *at;       /* where a place is in it */
    uint64_t *first_ns; /* by place */
    uint32_t count;
} sending;

/* Nobody sends; room for `most`. Errors: NO_MEMORY; destroy it in any case. */
int sending_init(sending *all, uint32_t most, const tarry_allocator *allocator);
void sending_destroy(sending *all, const tarry_allocator *allocator);
/* `place`, which is not among them, sends from here on. */
void sending_add(sending *all, uint32_t place, uint64_t first_ns);
/* The first one; there is one. */
static inline uint32_t sending_first(const sending *all)
{
    return all->heap[0];
}
/* What the first one sends is served: the next one of it is there then. */
void sending_next(sending *all, uint64_t first_ns);
/* The same, and it has nothing more to send. */
void sending_end(sending *all);
/* `place`, which is among them, has another time. */
void sending_change(sending *all, uint32_t place, uint64_t first_ns);

#endif
