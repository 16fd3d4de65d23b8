/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_EVOLVE_H
#define PLAN_EVOLVE_H

#include <stdint.h>

#include <tarry/allocator.h>

#include "plan/evolve/flow.h"
#include "plan/plan.h"

/* Lists of spans, see plan/plan.h. */

/* Sorts spans that do not overlap and joins those that touch; gives back how many are left. */
uint32_t span_put_in_order(tarry_span *spans, uint32_t count);

/* Whether a list in order can be cut into `pieces` (a power of two) equal parts. */
bool span_can_cut(const tarry_span *spans, uint32_t count, uint32_t pieces);
/* Part `index` (0..pieces-1) of such a cut, in order: at most `count` spans; gives back how many.
 * The parts follow each other along the list. */
uint32_t span_cut(const tarry_span *spans, uint32_t count, uint32_t pieces, uint32_t index,
                  tarry_span *part);

/*
 * Covering the chunks in the least time, were they divisible: chunk i is an amount of work of which
 * `copies` are needed, at most one from each of its holders; a worker does its share of whichever
 * of its chunks it likes at its own pace. That is a maximum flow from workers over the assignment
 * to chunks, and its time a bound for every way in which whole chunks can be computed.
 */

typedef struct cover {
    uint32_t workers, chunks, copies;
    double *pace;      /* per worker: time per cost; INFINITY: it computes nothing */
    uint64_t *amount;  /* per chunk: one copy of it, in units of the flow */
    uint64_t demand;   /* copies of all chunks, in the same */
    double unit;       /* units of the flow per cost */
    uint32_t holdings; /* pairs of worker and chunk so far */
    flow network;      /* worker j is node j, chunk i node workers + i */
} cover;

/*
 * Makes a cover without holdings, with room for `most` of them. pace: per worker, >= 0, or
 * INFINITY; cost: per chunk, >= 0, of which at least one isn't 0; both are copied. copies >= 1.
 * workers + chunks + most <= 2^30. Errors: NO_MEMORY, with which nothing is left to free.
 */
int cover_init(cover *state, uint32_t workers, uint32_t chunks, uint32_t copies, uint32_t most,
               const double *pace, const double *cost, const tarry_allocator *allocator);
void cover_destroy(cover *state, const tarry_allocator *allocator); /* a zeroed one is allowed */

/* Says that the worker holds the chunk (once); gives back the holding's number: 0, 1, ... */
uint32_t cover_hold(cover *state, uint32_t worker, uint32_t chunk);

/* The least time, in the unit of pace * cost, to a relative 1e-9; INFINITY if a chunk has fewer
 * than `copies` holders that compute. */
double cover_time(cover *state);

/*
 * Lets every worker work for `time` on what it holds, so that as much as possible is done; gives
 * back how much is missing, in units of the flow. Afterwards cover_spare and cover_missing say
 * where; a worker that has time to spare can reach no chunk that misses anything, not even by
 * taking work from others that could. cover_time leaves nothing of the kind.
 */
uint64_t cover_fill(cover *state, double time);
uint64_t cover_missing(const cover *state, uint32_t chunk); /* of its copies */
uint64_t cover_done(const cover *state, uint32_t holding);  /* by this worker of this chunk */

/*
 * After cover_fill: takes the holding from its worker, with what it did; returns it, or adds one,
 * whose worker does of the chunk what it can; and lets all take over work from each other until no
 * more can be done, giving back what is then missing. A holding that was taken stays empty until
 * the next cover_fill or cover_time.
 */
void cover_take(cover *state, uint32_t holding);
uint32_t cover_give(cover *state, uint32_t worker, uint32_t chunk);
uint64_t cover_refill(cover *state);

#endif
