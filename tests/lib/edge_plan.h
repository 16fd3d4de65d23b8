/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with hand-made assignments, for tests of what builds on a plan. */
#ifndef TEST_EDGE_PLAN_H
#define TEST_EDGE_PLAN_H

#include "plan/plan.h"

typedef struct edge {
    uint32_t worker;
    uint32_t chunk;
} edge;

/*
 * A plan with the given edges (no two are equal): each worker's order is that of its edges in the
 * list. It has no decode matrix (NULL) yet; conditioning and digest are zero. NULL if the allocator
 * fails. Freed by edge_plan_free.
 */
tarry_plan *edge_plan_make(uint32_t workers, uint32_t chunks, uint32_t parts, const edge *edges,
                           size_t count, const tarry_allocator *allocator);
void edge_plan_free(tarry_plan *plan);

/* Chunk i at the workers i, i + 1, .. i + replication - 1 modulo workers. */
tarry_plan *edge_plan_cyclic(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts);
/* Chunk i at `replication` neighbouring workers of the group i modulo workers / replication. */
tarry_plan *edge_plan_fractional(uint32_t workers, uint32_t chunks, uint32_t replication,
                                 uint32_t parts);
/* Each chunk at `replication` workers, drawn from the seed; loads differ as they fall. */
tarry_plan *edge_plan_random(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts, uint64_t seed);

/* Gives the plan a decode matrix of random unit columns; if it is adaptive, one for each number of
 * parts, and ones for one part. */
void edge_plan_random_decode(tarry_plan *plan, uint64_t seed);

#endif
