/* SPDX-License-Identifier: Apache-2.0 */
/* Edge colouring of regular bipartite multigraphs:
 * every one splits into perfect matchings (Koenig, 1916). */
#ifndef PLAN_COLOURING_H
#define PLAN_COLOURING_H

#include <stdint.h>

#include <tarry/allocator.h>

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

#endif
