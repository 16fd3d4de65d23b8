/* SPDX-License-Identifier: Apache-2.0 */
/* All that a worker has for one plan: its machine, and room for vectors. */
#ifndef WORKER_SLATE_H
#define WORKER_SLATE_H

#include <tarry/worker.h>

#include "coding/layout.h"
#include "compress/residuals.h"
#include "protocol/form.h"
#include "protocol/wire/codec.h"
#include "runtime/worker/secure_sum.h"

typedef struct worker_slate {
    const tarry_plan *plan; /* its machine's */
    uint32_t load;
    uint32_t banks; /* rounds whose gradients are kept: 1, or 2 with TARRY_FILL_STALE */
    codec_shape shape;
    uint64_t *words; /* of a decoded frame */
    tarry_keep keep;
    float **gradient; /* banks x load vectors of d numbers; NULL if one has no place */
    /* TARRY_KEEP_ALL: per vector of `gradient`: the generation of the parameters for which it is
     * finished; 0: it is not. Secure sums: the same of the gradient at a position. */
    uint64_t *finished;
    /* TARRY_KEEP_CREDITED: what `gradient` points into. Of the spare ones the last is taken first,
     * so that no more memory is written to than is needed at a time. */
    uint32_t places; /* one, and as many as it may run ahead; as many as chunks do */
    float **place;   /* places vectors of d numbers */
    float **spare;   /* those of them that no gradient has */
    uint32_t spare_count;
    uint32_t *folds;      /* scratch: places positions, of a step of the talking thread; */
    float *weights;       /* what their gradients are added times */
    const float **inputs; /* scratch: load, of transfer_encode */
    float *part;          /* z: room for the longest part; TARRY_KEEP_CREDITED: the running sum */
    bool lent;            /* the part is the caller's */
    const float *coded;   /* where z is since it was encoded last: the part, or the one gradient
                             that it equals */
    /* Each stripe of z in the form in which it is sent, `packed_stride` bytes from one to the next;
     * NULL: as it is. */
    uint8_t *packed;
    size_t packed_stride;
    secure_sum secret;    /* secure sums: what the part is then */
    residuals *residuals; /* what that lost; NULL: a form without feedback */
    void *scratch;        /* of transfer_encode */
    tarry_worker *machine;
    /* What the chunk at `slot` stands for: span[span_offset[slot]] .. span_offset[slot + 1] - 1. */
    uint32_t *span_offset;
    tarry_span *span;
} worker_slate;

typedef struct worker_slate_settings {
    layout cut; /* into the least number of parts */
    /* As tarry_worker_settings. */
    tarry_keep keep;
    uint32_t ahead;
    bool keeps_stale;
    double conditioning_limit;
    compress_form form; /* in which z is sent, */
    dense_rounds dense; /* but for these rounds */
    ring grid;          /* secure sums: of the words that z is; bits 0: it is not */
    tarry_sum_place sum;
    tarry_sum_id last;
    /* Where the part lies: cut.part_length numbers, from the start of a cache line on,
     * borrowed, to outlive the slate; NULL: in memory of its own. */
    float *part;
} worker_slate_settings;

/* The slate of `worker`; plan is borrowed by its machine. Errors: ARGUMENT, NO_MEMORY; nothing is
 * left to free then. */
int worker_slate_create(const tarry_plan *plan, uint32_t worker,
                        const worker_slate_settings *settings, const tarry_allocator *allocator,
                        worker_slate **made);
void worker_slate_free(worker_slate *self, const tarry_allocator *allocator); /* NULL is allowed */
/* Where a stripe of z is as it is sent. */
void *worker_slate_stripe(const worker_slate *self, const layout *cut, uint32_t stripe);
/* A spare place for the gradient at `slot`; there has to be one. And back, if it has any. */
float *worker_slate_take_place(worker_slate *self, uint32_t slot);
void worker_slate_free_place(worker_slate *self, uint32_t slot);
/* TARRY_KEEP_CREDITED, the part not lent: the gradient at `slot` becomes the part, and what the
 * part was takes its place. */
void worker_slate_begin_part(worker_slate *self, uint32_t slot);
/* Frees all but the spans and the vector `kept`, which it has. */
void worker_slate_clear(worker_slate *self, const float *kept, const tarry_allocator *allocator);

#endif
