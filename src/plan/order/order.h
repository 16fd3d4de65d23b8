/* SPDX-License-Identifier: Apache-2.0 */
/* In which sequence each worker computes the chunks that the design gave it. */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include <stdint.h>

#include <tarry/allocator.h>

#include "plan/plan.h"

/*
 * Rearranges each worker's slots of plan->slot_chunk; worker_offset and slot_chunk are set, the
 * other view is not. Errors: NO_MEMORY.
 *
 * RANDOM shuffles, AS_IS leaves the slots alone. OPTIMAL colours the edges such that no worker has
 * a colour twice and each chunk's colours are spread evenly, and sorts by colour. With N = m and
 * all loads and replications equal, a colour is a perfect matching, so that every chunk stands once
 * at every position.
 */
int order_arrange(tarry_plan *plan, tarry_order order, uint64_t seed);

/* Edge colouring of regular bipartite multigraphs:
 * every one splits into perfect matchings (Koenig, 1916). */

/* Edge e joins the left vertex left[e] to the right vertex right[e]. Every vertex has `degree`
 * edges; several may join the same two. */
typedef struct multigraph {
    uint32_t vertices; /* on either side */
    uint32_t degree;
    const uint32_t *left;  /* vertices * degree */
    const uint32_t *right; /* vertices * degree */
} multigraph;

/*
 * Sets colour[e] to 0..degree-1 for each edge such that every vertex has every colour once: even
 * degrees are halved by Euler splitting, odd ones reduced by a perfect matching. Errors: NO_MEMORY.
 */
int colour_edges(const multigraph *graph, const tarry_allocator *allocator, uint32_t *colour);

/* Splits a multigraph into two of half the degree (H. N. Gabow, Using Euler partitions to edge
 * color bipartite multigraphs, 1976). */

typedef struct euler euler;

/* Memory for splits of graph and its parts. Errors: NO_MEMORY. */
int euler_create(const multigraph *graph, const tarry_allocator *allocator, euler **out);
void euler_free(euler *state); /* NULL is allowed */

/*
 * edge[0..vertices*degree-1] are edges of the graph among which every vertex has `degree`, an even
 * number. Rearranges them such that every vertex has degree / 2 in either half. Time and memory are
 * proportional to the edges.
 */
void euler_split(euler *state, uint32_t *edge, uint32_t degree);

/* Perfect matchings (J. E. Hopcroft, R. M. Karp, An n^(5/2) algorithm for maximum matchings in
 * bipartite graphs, 1973). */

typedef struct matching matching;

/* Memory for matchings in graph and its parts. Errors: NO_MEMORY. */
int matching_create(const multigraph *graph, const tarry_allocator *allocator, matching **out);
void matching_free(matching *state); /* NULL is allowed */

/*
 * edge[0..vertices*degree-1] are edges of the graph among which every vertex has `degree` >= 1.
 * Moves a perfect matching to the front. Time: edges * sqrt(vertices) at most.
 */
void matching_take(matching *state, uint32_t *edge, uint32_t degree);

/* Local improvement of an order. */

/*
 * Raises the least slack for `copies` = plan->parts, and so lowers Q_l, by exchanging two
 * positions of a worker at a time, until the bound is reached, no exchange helps, or a fixed amount
 * of work is done. Chance is drawn from `seed`. Both views of the assignment are set and
 * stay consistent. Errors: NO_MEMORY; the plan is then unchanged.
 */
int improve_order(tarry_plan *plan, uint64_t seed);

/*
 * The worst case of an order (A. Ramamoorthy et al., arXiv 2405.19509, section 4).
 *
 * The reach of a copy is the number of chunks from its position to the end of its worker's order:
 * load - position, 1 for the last. While chunk i has fewer than l of its gamma_i copies, at least
 * k = gamma_i - l + 1 of its holders have not come to it, and each leaves its reach unprocessed. At
 * worst these are the k holders of least reach:
 *     Q_l = 1 + edges - min over i of (sum of the k least reaches of chunk i).
 * That sum is called the chunk's slack.
 */

typedef struct slack {
    uint64_t sum;     /* of the k least reaches */
    uint32_t largest; /* of these */
    uint32_t next;    /* the least of the other reaches; UINT32_MAX if there are none */
} slack;

static inline uint32_t reach_of(const tarry_plan *plan, uint32_t entry)
{
    uint32_t worker = plan->holder_worker[entry];
    uint32_t load = plan->worker_offset[worker + 1] - plan->worker_offset[worker];
    return load - plan->holder_position[entry];
}

/* The least slack of all chunks. copies: 1..min_replication. */
uint64_t slack_least(const tarry_plan *plan, uint32_t copies);

/* A value that slack_least exceeds in no order of the same assignment;
 * docs/plan.md has the proof. */
uint64_t slack_bound(const tarry_plan *plan, uint32_t copies);

#endif
