/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_world.h"

int simulate_world_create(const tarry_plan *plan, const baseline_settings *own,
                          const tarry_sim_settings *settings, simulate_world *world,
                          tarry_diagnostic *diagnostic)
{
    *world = (simulate_world){NULL, NULL};
    return own->kind == BASELINE_NONE
               ? tarry_sim_create(plan, settings, NULL, &world->sim, diagnostic)
               : baseline_create(plan, own, settings, NULL, &world->model, diagnostic);
}

void simulate_world_free(simulate_world *world)
{
    tarry_sim_free(world->sim);
    baseline_free(world->model);
}

int simulate_world_costs(simulate_world *world, const double *chunk_cost,
                         tarry_diagnostic *diagnostic)
{
    return world->sim != NULL ? tarry_sim_costs(world->sim, chunk_cost, diagnostic)
                              : baseline_costs(world->model, chunk_cost, diagnostic);
}

int simulate_world_round(simulate_world *world, tarry_round_result *result)
{
    return world->sim != NULL ? tarry_sim_round(world->sim, result)
                              : baseline_round(world->model, result);
}
