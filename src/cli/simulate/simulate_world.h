/* SPDX-License-Identifier: Apache-2.0 */
/* What runs the rounds of a variant: the machines of tarry/sim.h, or a model of sim/baseline.h. */
#ifndef CLI_SIMULATE_WORLD_H
#define CLI_SIMULATE_WORLD_H

#include "sim/baseline.h"

/* One of the two is there. */
typedef struct simulate_world {
    tarry_sim *sim;
    baseline *model;
} simulate_world;

/* As tarry_sim_create and baseline_create; own->kind says which. */
int simulate_world_create(const tarry_plan *plan, const baseline_settings *own,
                          const tarry_sim_settings *settings, simulate_world *world,
                          tarry_diagnostic *diagnostic);
void simulate_world_free(simulate_world *world);

/* As tarry_sim_costs. */
int simulate_world_costs(simulate_world *world, const double *chunk_cost,
                         tarry_diagnostic *diagnostic);
/* As tarry_sim_round. */
int simulate_world_round(simulate_world *world, tarry_round_result *result);

#endif
