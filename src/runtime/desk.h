/* SPDX-License-Identifier: Apache-2.0 */
/* All that a worker has for one plan: its machine, and room for vectors. */
#ifndef RUNTIME_DESK_H
#define RUNTIME_DESK_H

#include <tarry/worker.h>

#include "coding/layout.h"
#include "protocol/codec.h"

enum { DESK_PLACES = 2 }; /* for gradients, with TARRY_KEEP_CREDITED */

typedef struct desk {
    uint32_t load;
    uint32_t banks; /* rounds whose gradients are kept: 1, or 2 with TARRY_FILL_STALE */
    codec_shape shape;
    uint64_t *words; /* of a decoded frame */
    tarry_keep keep;
    float **gradient; /* banks x load vectors of d numbers; NULL if one has no place */
    /* TARRY_KEEP_ALL: per vector of `gradient`: the generation of the parameters for which it is
     * finished; 0: it is not. */
    uint64_t *finished;
    float *place[DESK_PLACES]; /* TARRY_KEEP_CREDITED: what these point to; d numbers each */
    const float **inputs;      /* scratch: load, of transfer_encode */
    float *part;   /* z: room for the longest part; TARRY_KEEP_CREDITED: the running sum */
    bool lent;     /* the part is the caller's */
    void *scratch; /* of transfer_encode */
    tarry_worker *machine;
    /* What the chunk at `slot` stands for: span[span_offset[slot]] .. span_offset[slot + 1] - 1. */
    uint32_t *span_offset;
    tarry_span *span;
} desk;

typedef struct desk_settings {
    layout cut; /* into the least number of parts */
    /* As tarry_worker_settings. */
    tarry_keep keep;
    bool keeps_stale;
    double conditioning_limit;
    /* Where the part lies: cut.part_length numbers, from the start of a cache line on,
     * borrowed, to outlive the desk; NULL: in memory of its own. */
    float *part;
} desk_settings;

/* The desk of `worker`; plan is borrowed by its machine. Errors: ARGUMENT, NO_MEMORY; nothing is
 * left to free then. */
int desk_create(const tarry_plan *plan, uint32_t worker, const desk_settings *settings,
                const tarry_allocator *allocator, desk **made);
void desk_free(desk *own, const tarry_allocator *allocator); /* NULL is allowed */
/* Frees all but the spans and the vector `kept`, which it has. */
void desk_clear(desk *own, const float *kept, const tarry_allocator *allocator);

#endif
