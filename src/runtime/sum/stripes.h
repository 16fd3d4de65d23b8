/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for stripes of coded parts that come in: buffers that go from whoever receives to the decode
 * threads and back. Each is also the entry of a queue, so that queueing takes no memory. One
 * thread's.
 */
#ifndef RUNTIME_STRIPES_H
#define RUNTIME_STRIPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/compress.h>

typedef struct stripe {
    struct stripe *next; /* in the queue that it is in */
    union {              /* room for the longest stripe; begins at a cache line */
        float *numbers;
        uint8_t *bytes; /* where coded parts are sent in another form */
    };
    void *owner; /* of memory that is not a pool's, in which the numbers lie; else NULL */
    uint64_t round;
    uint32_t attempt, worker, index;
    tarry_compress form; /* of the bytes */
    double scale;        /* as TARRY_EFFECT_COMBINE has it */
} stripe;

/* First in, first out. */
typedef struct stripe_queue {
    stripe *first, *last;
} stripe_queue;

void stripe_queue_push(stripe_queue *queue, stripe *item);
/* NULL: it is empty. */
static inline stripe *stripe_queue_pop(stripe_queue *queue)
{
    stripe *item = queue->first;
    if (item != NULL)
        queue->first = item->next;
    return item;
}
/* Moves all of `from` behind what is in `queue`. */
void stripe_queue_append(stripe_queue *queue, stripe_queue *from);

typedef struct stripes {
    tarry_allocator allocator;
    size_t length; /* numbers in each */
    stripe *spare;
    size_t spares, used; /* how many lie here; how many are with others */
    size_t most_used;    /* since the last stripes_trim */
} stripes;

void stripes_init(stripes *pool, size_t length, const tarry_allocator *allocator);
/* All must have been given back. */
void stripes_destroy(stripes *pool);

/* A spare one, or a new one; NULL if there is no memory. */
stripe *stripes_take(stripes *pool);
void stripes_give(stripes *pool, stripe *item);
/* Frees what was not needed at one time since the last call. */
void stripes_trim(stripes *pool);

#endif
