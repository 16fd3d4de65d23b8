/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a multigraph into two of half the degree (H. N. Gabow, Using Euler partitions to edge
 * color bipartite multigraphs, 1976). */
#ifndef PLAN_EULER_H
#define PLAN_EULER_H

#include "plan/order/colouring.h"

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

#endif
