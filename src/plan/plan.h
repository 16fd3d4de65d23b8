/* SPDX-License-Identifier: Apache-2.0 */
/* The plan from within: who holds what, as two views of the same
 * edges (worker, chunk) of the assignment. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <tarry/plan.h>

/* All sums over the copies fit into 32 bits with room to spare. */
#define PLAN_MAX_EDGES (UINT32_C(1) << 30)

/* What an original chunk weighs: the finest span that there is (below) weighs 1. */
#define PLAN_ORIGIN_WEIGHT (UINT64_C(1) << 31)

struct tarry_plan {
    tarry_allocator allocator;
    uint32_t workers; /* m */
    uint32_t chunks;  /* the units of work: N, or N times the pieces */
    uint32_t pieces;  /* of a whole chunk; 1: chunks are whole */
    uint32_t parts;   /* l */
    tarry_order order;
    uint64_t seed;
    /*
     * Chunk i stands for span[span_offset[i]] .. span[span_offset[i + 1] - 1] of the chunks
     * 0..origins-1 of the plan that this one comes from; both are NULL where that is chunk i, and
     * so are the weights then, which are the sizes of the spans. origins * parts is at most
     * PLAN_MAX_EDGES, so that ranks times weights, all together, fit into 61 bits.
     */
    uint32_t origins;
    uint32_t *span_offset; /* chunks + 1, or NULL */
    tarry_span *span;
    uint64_t *weight; /* chunks, or NULL: see plan_weight */
    /*
     * Worker j's slots are worker_offset[j] .. worker_offset[j + 1] - 1, in its order; slot s
     * stands for chunk slot_chunk[s], of which the worker is the slot_holder[s]-th holder.
     */
    uint32_t *worker_offset; /* workers + 1 */
    uint32_t *slot_chunk;    /* edges */
    uint32_t *slot_holder;   /* edges */
    /*
     * Chunk i's holders are chunk_offset[i] .. chunk_offset[i + 1] - 1, in ascending order of
     * workers; entry h is worker holder_worker[h], where the chunk has position holder_position[h]
     * (0..load-1).
     */
    uint32_t *chunk_offset;      /* chunks + 1 */
    uint32_t *holder_worker;     /* edges */
    uint32_t *holder_position;   /* edges */
    uint32_t *replication_count; /* max_replication + 1: how many chunks have that replication */
    /* R: parts x workers, row-major; unit columns, or all ones with one part. */
    double *decode;
    uint32_t racks; /* 0: none are known */
    uint32_t *rack; /* per worker: 0..racks-1, numbered as they first occur; NULL without racks */
    tarry_rack_spread rack_spread;
    uint32_t max_load, max_replication, min_replication;
    size_t max_psi_bits; /* most holders that the chunks of one worker have together */
    tarry_conditioning conditioning;
    uint8_t digest[TARRY_DIGEST_SIZE];
};

/* How much of the data `chunk` is, and all chunks are: what its rank counts for in the error. */
static inline uint64_t plan_weight(const tarry_plan *plan, uint32_t chunk)
{
    return plan->weight == NULL ? PLAN_ORIGIN_WEIGHT : plan->weight[chunk];
}
static inline uint64_t plan_total_weight(const tarry_plan *plan)
{
    return plan->origins * PLAN_ORIGIN_WEIGHT;
}

/* The position that `chunk` has in the order of its index-th holder. */
static inline uint32_t plan_position(const tarry_plan *plan, uint32_t chunk, uint32_t index)
{
    return plan->holder_position[plan->chunk_offset[chunk] + index];
}

static inline uint32_t plan_edges(const tarry_plan *plan)
{
    return plan->worker_offset[plan->workers];
}

/* From worker_offset and slot_chunk: arranges the slots by `order` and plan->seed and sets the view
 * by chunk and all counts. Errors: NO_MEMORY. */
int plan_arrange(tarry_plan *plan, tarry_order order);
/* When all else is set. Errors: NO_MEMORY. */
int plan_take_digest(tarry_plan *plan);

/*
 * Lists of spans. All numbers of units are powers of two, so that the coarser of two units is a
 * whole number of the finer, and cuts of cuts stay exact.
 *
 * A list is in order if its spans ascend by origin and place, no two touch or overlap, and each is
 * in its coarsest units.
 */

/* The finest that a span can say. */
#define SPAN_MOST_UNITS (UINT32_C(1) << 31)

/* The spans of a chunk; *whole is set, and pointed at, where the plan stores none. */
const tarry_span *span_list(const tarry_plan *plan, uint32_t chunk, tarry_span *whole,
                            uint32_t *count);

/* Where the span begins and ends, and what it holds, in original chunks; exact. */
double span_begin(tarry_span span);
double span_end(tarry_span span);
double span_size(const tarry_span *spans, uint32_t count);

/* Sets the weights of the plan's chunks from their spans, of which it has some. Errors: NO_MEMORY.
 */
int span_weigh(tarry_plan *plan);

#endif
