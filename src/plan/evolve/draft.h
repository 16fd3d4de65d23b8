/* SPDX-License-Identifier: Apache-2.0 */
/* The next plan while it is being made: chunks, what they stand for, and their holders. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "plan/plan.h"

typedef struct draft {
    const tarry_plan *from;
    uint32_t chunks;
    double *cost;     /* per chunk */
    uint32_t *parent; /* per chunk: a chunk of `from`: what it is, is a part of, or took in first */
    uint32_t *offset; /* chunks + 1: chunk i's copies are offset[i] .. offset[i + 1] - 1 */
    uint32_t *holder; /* per copy: a worker; at first in the sequence of the parent's holders */
    uint32_t *span_offset; /* chunks + 1 */
    tarry_span *span;      /* of each chunk, in order (span.h) */
    uint32_t racks;        /* 0: none are known */
    const uint32_t *rack;  /* per worker, as in the plan; borrowed; NULL without racks */
} draft;

/*
 * Splits chunks of `from` that cost more than `most` into equal ones that don't, as far as units
 * go, and merges those of the same holders that cost less than `least`, up to `mean`; the others
 * stay, and so does the sequence of all. cost: per chunk of `from`; most > 2 * least; INFINITY and
 * 0: none. The draft has the holders and racks of `from`. Counts of splits and merges go into
 * *changes; no other of its numbers is touched. Errors: ARGUMENT (more copies than a plan may
 * have), NO_MEMORY; nothing is left to free then.
 */
int draft_cut(draft *made, const tarry_plan *from, const double *cost, double most, double least,
              double mean, const tarry_allocator *allocator, tarry_plan_changes *changes,
              tarry_diagnostic *diagnostic);
void draft_destroy(draft *made, const tarry_allocator *allocator); /* a zeroed one is allowed */

/* The least time in which workers of these paces can cover the draft's chunks (cover.h), once for
 * each part. Errors: NO_MEMORY. */
int draft_time(const draft *made, const double *pace, const tarry_allocator *allocator,
               double *time);

/*
 * Moves copies: first those of the gone, until `parts` holders of every chunk are not gone; then
 * those that share a rack, each to one that has two copies of its chunk fewer or less still; then
 * until the draft can be covered within `time`, or no move helps, or `most_moves` are made. Such a
 * move takes a copy from the slowest holder of a chunk that misses work and gives it to the worker
 * with the most time to spare of those that are faster, and whose racks have no more of the chunk's
 * other copies than the holder's. No taker comes to hold more than
 * `most_data` original chunks. Moves are counted in *changes. Errors: NO_MEMORY.
 */
int draft_move(draft *made, const double *pace, double time, uint32_t most_moves, double most_data,
               const tarry_allocator *allocator, tarry_plan_changes *changes);

/*
 * Makes the plan; the caller owns *out. Each worker's chunks have the sequence that they had in
 * `from`, and those that are new to it follow; if the draft was changed, they are then arranged by
 * the plan's order. Errors: NO_MEMORY.
 */
int draft_finish(const draft *made, bool changed, const tarry_allocator *allocator,
                 tarry_plan **out);

#endif
