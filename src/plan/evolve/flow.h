/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_FLOW_H
#define PLAN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>

/*
 * Maximum flow in a network with whole capacities, by blocking flows over the shortest ways.
 * Source: E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks with power
 * estimation, 1970; O(sqrt(nodes) arcs) where the inner arcs have capacity 1.
 */

/* An arc and the room that is left on it; arc a ^ 1 is its reverse. */
typedef struct flow_arc {
    uint32_t to;
    uint32_t next; /* of the same node; FLOW_NONE ends the list */
    uint64_t room;
} flow_arc;

#define FLOW_NONE UINT32_MAX

typedef struct flow {
    uint32_t nodes, arcs, most_arcs;
    flow_arc *arc;     /* most_arcs */
    uint32_t *first;   /* per node: an arc, or FLOW_NONE */
    uint32_t *current; /* per node: where the search goes on */
    uint32_t *level;   /* per node: steps from the source; FLOW_NONE if it isn't reached */
    uint32_t *stack;   /* per node: nodes in waiting, or the arcs of a way */
} flow;

/* Makes a network of `nodes` nodes without arcs, with room for `arcs` of them (at most 2^30).
 * Errors: NO_MEMORY, with which nothing is left to free. */
int flow_init(flow *network, uint32_t nodes, uint32_t arcs, const tarry_allocator *allocator);
void flow_destroy(flow *network, const tarry_allocator *allocator); /* a zeroed one is allowed */

/* Adds an arc without capacity; gives back its number. Arcs are numbered 0, 2, 4, ... */
uint32_t flow_add(flow *network, uint32_t from, uint32_t to);
/* Sets an arc's capacity and takes all flow off it. */
void flow_set(flow *network, uint32_t arc, uint64_t capacity);

/*
 * Adds the most flow that fits from source to sink and gives it back; the sum of the capacities
 * that leave the source must be below 2^64. Afterwards flow_reached says on which side of a least
 * cut a node is.
 */
uint64_t flow_run(flow *network, uint32_t source, uint32_t sink);

static inline bool flow_reached(const flow *network, uint32_t node)
{
    return network->level[node] != FLOW_NONE;
}

/* How much flows over an arc. */
static inline uint64_t flow_on(const flow *network, uint32_t arc)
{
    return network->arc[arc ^ 1].room;
}

#endif
