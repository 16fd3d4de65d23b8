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
 * fails. Freed by tarry_plan_free.
 */
tarry_plan *edge_plan_make(uint32_t workers, uint32_t chunks, uint32_t parts, const edge *edges,
                           size_t count, const tarry_allocator *allocator);

/* Chunk i at the workers i, i + 1, .. i + replication - 1 modulo workers. */
tarry_plan *edge_plan_cyclic(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts);
/* Chunk i at `replication` neighbouring workers of the group i modulo workers / replication. */
tarry_plan *edge_plan_fractional(uint32_t workers, uint32_t chunks, uint32_t replication,
                                 uint32_t parts);
/* Each chunk at `replication` workers, drawn from the seed; loads differ as they fall. */
tarry_plan *edge_plan_random(uint32_t workers, uint32_t chunks, uint32_t replication,
                             uint32_t parts, uint64_t seed);

/* The usual settings but for these. */
tarry_plan_settings plan_settings(uint32_t workers, uint32_t chunks, uint32_t replication,
                                  tarry_design design, tarry_order order, uint64_t seed);
/* Made by tarry_plan_create and tarry_plan_evolve, or the case fails; freed by tarry_plan_free. */
tarry_plan *plan_make(const tarry_plan_settings *settings);
tarry_plan *plan_evolve(const tarry_plan *plan, const tarry_plan_evolution *wanted,
                        tarry_plan_changes *changes);
/* With these settings and otherwise the usual ones. */
tarry_plan *plan_of(uint32_t workers, uint32_t chunks, uint32_t replication, tarry_design design,
                    tarry_order order, uint64_t seed);
tarry_plan *plan_drawn(uint32_t workers, uint32_t chunks, uint32_t replication, uint64_t seed);

/* Gives the plan a decode matrix of random unit columns. */
void edge_plan_random_decode(tarry_plan *plan, uint64_t seed);

#endif
