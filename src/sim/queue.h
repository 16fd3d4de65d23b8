/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is still to happen, by time and, at equal times, in the order in which it was scheduled: a
 * binary heap whose entries know where they stand, so that what will not happen can be taken out.
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

typedef enum sim_event_kind {
    SIM_TO_WORKER,  /* `message` arrives at worker `node` */
    SIM_AT_CARD,    /* the first byte of `message` from `node` arrives at the server's card */
    SIM_TO_SERVER,  /* `message` from `node` is at the server */
    SIM_COMPUTED,   /* `node` is done with the chunk at message.slot of message.round */
    SIM_ENCODED,    /* `node` has sent message.stripe of message.attempt */
    SIM_COMBINED,   /* the server has added it to the estimate */
    SIM_DIES,       /* `node` falls silent */
    SIM_COMES_BACK, /* `node` is there again, with nothing in memory */
    SIM_JOINS,      /* the server hears of that */
    SIM_REDUCED,    /* `node` has made the sum message.sum */
    SIM_FETCHED,    /* `node` has got it, or has not (`failed`) */
    SIM_LOADED,     /* the same of the state after it */
    SIM_STEPPED,    /* `node` has stepped on it */
    SIM_LOGGED,     /* it is in the server's log */
    SIM_ASKS,       /* baseline.c: `node` asks for its next piece */
    SIM_NOTICED,    /* baseline.c: the server takes `node` for lost */
} sim_event_kind;

typedef struct sim_event {
    sim_event_kind kind;
    uint32_t node;
    uint32_t life;         /* of the node that sent it or that it is for */
    uint64_t left_ns;      /* SIM_AT_CARD, SIM_TO_SERVER: when its last byte has left the worker */
    uint64_t bytes;        /* SIM_AT_CARD */
    tarry_message message; /* its bit sets lie in `bits` */
    uint64_t *bits;        /* owned by the event; NULL if there are none */
} sim_event;

/* Stands for no event. */
#define QUEUE_NONE UINT32_MAX

typedef struct queue_entry {
    uint64_t time;
    uint64_t sequence;
    uint32_t event;
} queue_entry;

typedef struct queue {
    tarry_allocator allocator;
    sim_event *events;  /* capacity */
    uint32_t *position; /* of an event in the heap; of a free one: the next free one */
    queue_entry *heap;  /* count */
    uint32_t count, capacity;
    uint32_t free;     /* the first free event, QUEUE_NONE if there is none */
    uint64_t sequence; /* of the next event scheduled */
} queue;

/* Room for `capacity` >= 1 events at first. Errors: NO_MEMORY; destroy it in any case. */
int queue_init(queue *state, uint32_t capacity, const tarry_allocator *allocator);
/* Frees the events' bit sets as well. */
void queue_destroy(queue *state);

/*
 * Schedules a copy of `event`, whose bits then belong to the queue, and gives back its id (for
 * queue_remove) through `id`, which may be NULL. Errors: NO_MEMORY; the bits remain the caller's.
 */
int queue_push(queue *state, uint64_t time, const sim_event *event, uint32_t *id);
/* The time of the next event; TARRY_NEVER if there is none. */
uint64_t queue_next(const queue *state);
/* Takes the next event out; there is one. Its bits are the caller's, who frees them. */
sim_event queue_pop(queue *state);
/* Takes all events out that are `over`, with their bits. */
void queue_sweep(queue *state, bool (*over)(const sim_event *event));
/* Takes the event `id` out, which has not been popped; it has no bits. */
void queue_remove(queue *state, uint32_t id);

#endif
