/* SPDX-License-Identifier: Apache-2.0 */
/* All that a worker of the embedded runtime has for one plan: its machine, and room for vectors. */
#ifndef LOCAL_DESK_H
#define LOCAL_DESK_H

#include <tarry/server.h>
#include <tarry/worker.h>

#include "coding/layout.h"
#include "protocol/codec.h"

enum { LOCAL_PLACES = 2 }; /* for gradients, with TARRY_KEEP_CREDITED */

typedef struct local_desk {
    uint32_t load;
    uint32_t banks; /* rounds whose gradients are kept: 1, or 2 with TARRY_FILL_STALE */
    codec_shape shape;
    uint64_t *words; /* of a decoded frame */
    tarry_keep keep;
    float **gradient;           /* banks x load vectors of d numbers; NULL if one has no place */
    float *place[LOCAL_PLACES]; /* TARRY_KEEP_CREDITED: what these point to; d numbers each */
    const float **inputs;       /* scratch: load, of transfer_encode */
    float *part;   /* z: room for the longest part; TARRY_KEEP_CREDITED: the running sum */
    void *scratch; /* of transfer_encode */
    tarry_worker *machine;
    /* What the chunk at `slot` stands for: span[span_offset[slot]] .. span_offset[slot + 1] - 1. */
    uint32_t *span_offset;
    tarry_span *span;
} local_desk;

/* cut: into the least number of parts. plan is borrowed. Errors: ARGUMENT, NO_MEMORY; nothing is
 * left to free then. */
int local_desk_create(const tarry_plan *plan, uint32_t id, const layout *cut,
                      const tarry_server_settings *server, const tarry_allocator *allocator,
                      local_desk **desk);
void local_desk_free(local_desk *desk, const tarry_allocator *allocator); /* NULL is allowed */
/* Frees all but the spans and the vector `kept`, which it has. */
void local_desk_clear(local_desk *desk, const float *kept, const tarry_allocator *allocator);

#endif
