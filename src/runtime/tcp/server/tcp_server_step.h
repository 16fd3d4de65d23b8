/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_TCP_SERVER_STEP_H
#define RUNTIME_TCP_SERVER_STEP_H

#include <stdbool.h>

#include <tarry/allocator.h>

#include "protocol/wire/wire.h"

/* Which connection has which worker's id. One thread's. */

typedef struct roster_seat {
    void *holder;      /* the connection that has it; NULL: none */
    uint64_t heard_ns; /* when anything last came from the holder, or its predecessors */
    uint32_t arrivals;
    bool bound; /* the credential of the last holder names this id and no other */
    uint8_t instance[WIRE_ID_BYTES]; /* of the last holder */
} roster_seat;

typedef struct roster {
    roster_seat *seats; /* one per worker */
    uint32_t count;
} roster;

/* What a connection asks for. */
typedef struct roster_claim {
    uint32_t allowed;        /* the id that its credential is bound to; WIRE_ANY_WORKER: any */
    uint32_t wanted;         /* WIRE_ANY_WORKER: any that is free */
    const uint8_t *instance; /* WIRE_ID_BYTES */
} roster_claim;

/* How the holder of a seat came there. */
typedef enum roster_arrival {
    ROSTER_FIRST,     /* nobody had been there */
    ROSTER_AGAIN,     /* the same process, over another connection */
    ROSTER_RESTARTED, /* another process */
} roster_arrival;

/* Errors: NO_MEMORY. */
int roster_init(roster *self, uint32_t workers, const tarry_allocator *allocator);
void roster_destroy(roster *self, const tarry_allocator *allocator);

/*
 * Finds the seat for a claim at the time `now`. A seat that is held is given to its holder's own
 * process, to a credential that is bound to it if the holder's is not, and, unless the holder's is,
 * to anyone if nothing has come from the holder for `quiet_ns`: it is the caller's to end the
 * holder's connection then. Any seat: its own of before, else one that nobody ever had, else of
 * those that are free the one whose holder is away for longest, of bound ones last: those who come
 * back find their own. Gives back 0 and sets *worker, or why there is none: REFUSED_IDENTITY,
 * _RANGE, _TAKEN or _FULL.
 */
wire_reason roster_find(const roster *self, const roster_claim *claim, uint64_t now,
                        uint64_t quiet_ns, uint32_t *worker);
/* Seats the holder where roster_find said. Nobody holds the seat when this is called. */
roster_arrival roster_sit(roster *self, uint32_t worker, void *holder, const roster_claim *claim,
                          uint64_t now);
void roster_leave(roster *self, uint32_t worker);

#endif
