/* SPDX-License-Identifier: Apache-2.0 */
/* Perfect matchings (J. E. Hopcroft, R. M. Karp, An n^(5/2) algorithm for maximum matchings in
 * bipartite graphs, 1973). */
#ifndef PLAN_MATCHING_H
#define PLAN_MATCHING_H

#include "plan/order/colouring.h"

typedef struct matching matching;

/* Memory for matchings in graph and its parts. Errors: NO_MEMORY. */
int matching_create(const multigraph *graph, const tarry_allocator *allocator, matching **out);
void matching_free(matching *state); /* NULL is allowed */

/*
 * edge[0..vertices*degree-1] are edges of the graph among which every vertex has `degree` >= 1.
 * Moves a perfect matching to the front. Time: edges * sqrt(vertices) at most.
 */
void matching_take(matching *state, uint32_t *edge, uint32_t degree);

#endif
