/* SPDX-License-Identifier: Apache-2.0 */
/* A plan, a straggler and a simulator, made and freed together. */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include <tarry/sim.h>

#include "test.h"

#define SECOND UINT64_C(1000000000)

typedef struct world {
    tarry_plan_settings plan_settings;
    const char *spec; /* of the straggler; NULL: none */
    uint64_t straggler_seed;
    tarry_sim_settings settings; /* straggler is set by world_begin */

    tarry_plan *plan;
    tarry_straggler *straggler;
    tarry_sim *sim;
} world;

/* The plan's and the simulator's defaults, and a server that takes nobody's silence for a loss. */
void world_init(world *all);
/* Makes them; asserts that it worked. */
void world_begin(world *all);
void world_end(world *all);
OWNED_STRUCT_BY(world, world_end)
/* A case with one (test.h). */
#define WORLD(name) TEST_OF(name, world, all, world_end)

/* Runs a round; asserts that it went well, with an estimate or without. */
tarry_round_result world_round(world *all);
/* For fail_each_allocation: two rounds of the begun world `user`, in a simulator of their own. */
int world_attempt(void *user, const tarry_allocator *allocator);
/* How long it took. */
double world_seconds(const tarry_round_result *result);

#endif
