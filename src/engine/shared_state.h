/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the shared-memory engine. A sum's stripes pass through SHARED_SLOTS slots of each
 * segment. A member
 *
 *   copies   its coded part's stripe into the slot of its segment, once the stripe that was there
 * before is gathered; sums     its share of a stripe into the slot, once all members have copied
 * theirs; gathers  the stripe from the slots of all, once all have summed theirs.
 *
 * All that says how far a member is are two counts on its board: stripes copied, stripes summed.
 * Who has copied stripe s + SHARED_SLOTS has gathered stripe s, so that no slot is written again
 * before all have read it.
 *
 * Counts belong to the tag beside them, which stands for the group, the sum's name and shape. A tag
 * goes before the slots of its sum are written again: who has read a slot, and still finds the tag,
 * has read what it stands for.
 */
#ifndef ENGINE_SHARED_STATE_H
#define ENGINE_SHARED_STATE_H

#include "coding/kernel.h"
#include "coding/layout.h"
#include "engine/segment.h"
#include "engine/share.h"
#include "engine/shared.h"
#include "engine/sum_form.h"

enum { SHARED_SLOTS = 4 };

typedef struct shared_member {
    uint32_t worker;
    uint8_t address[SEGMENT_ADDRESS];
    segment memory;
    bool open;
    bool begun; /* its coded part of the present sum was seen */
} shared_member;

typedef struct shared_engine {
    tarry_engine base;
    tarry_allocator allocator;
    const kernel *with;
    uint8_t address[SEGMENT_ADDRESS];
    segment own;
    const segment_pool *pool; /* of its process; NULL: none */
    _Atomic bool woken;

    uint32_t count, place; /* of the group; 0: none */
    uint64_t epoch;
    shared_member *members; /* [count], the own one is never opened */
    const float **z;        /* [count] */
    bool *has;              /* [count] */

    tarry_engine_progress progress;
    tarry_engine_sum sum; /* what is left to be summed of it, */
    size_t stride;        /* and from part to part of that */
    uint64_t tag;
    layout cut;
    size_t slot_numbers; /* from one slot to the next in every segment of the group */
    size_t share_stride; /* from one part's share to the next in a slot; they follow the coded
                            part's stripe */
    share_terms terms;   /* known once all have begun */
    sum_forms forms;
    uint8_t *packed;                   /* a share in its form; NULL: nothing is rounded */
    uint32_t copied, summed, gathered; /* stripes */
} shared_engine;

/* Makes the sum's cut and takes memory for it. Errors: NO_MEMORY (also if the segments are too
 * small), ARGUMENT (`whole`, forms). */
int shared_sum_begin(shared_engine *engine, const tarry_engine_sum *sum);
/* One step of the sum. False: there is none now, or it ended. */
bool shared_sum_step(shared_engine *engine);
/* The member without which there is no step; none if it is known by now, or a failure. */
bool shared_sum_laggard(shared_engine *engine, uint32_t *place);
/* Ends the sum: `state` is IDLE, DONE or FAILED. */
void shared_sum_end(shared_engine *engine, tarry_engine_state state);
void shared_sum_fail(shared_engine *engine, uint32_t suspect, const char *why);

#endif
