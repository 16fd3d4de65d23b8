/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the part of psi that one worker is sent (TARRY_MESSAGE_SIGNAL): for each chunk of its
 * order, one bit per holder.
 *
 *     for (psi_walk at = psi_begin(plan, worker); psi_here(&at); psi_next(&at))
 */
#ifndef CODING_PSI_H
#define CODING_PSI_H

#include "plan/plan.h"

typedef struct psi_walk {
    const tarry_plan *plan;
    uint32_t slot, end; /* of the plan's orders: where the walk is, and where it ends */
    uint32_t position;  /* in the worker's order */
    uint32_t chunk;
    uint32_t first;   /* of the chunk's holders, as an index among all */
    uint32_t holders; /* of the chunk */
    size_t bit;       /* of the first holder; at the end: how many bits there are */
} psi_walk;

static inline bool psi_here(const psi_walk *at)
{
    return at->slot < at->end;
}

/* Reads the chunk at at->slot. */
static inline void psi_look(psi_walk *at)
{
    if (!psi_here(at))
        return;
    at->chunk = at->plan->slot_chunk[at->slot];
    at->first = at->plan->chunk_offset[at->chunk];
    at->holders = at->plan->chunk_offset[at->chunk + 1] - at->first;
}

static inline psi_walk psi_begin(const tarry_plan *plan, uint32_t worker)
{
    psi_walk at = {
        .plan = plan,
        .slot = plan->worker_offset[worker],
        .end = plan->worker_offset[worker + 1],
    };
    psi_look(&at);
    return at;
}

static inline void psi_next(psi_walk *at)
{
    at->bit += at->holders;
    at->slot++;
    at->position++;
    psi_look(at);
}

/* The bit of the worker's own copy. */
static inline size_t psi_own(const psi_walk *at)
{
    return at->bit + at->plan->slot_holder[at->slot];
}

#endif
