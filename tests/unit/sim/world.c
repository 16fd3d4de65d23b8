/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"
#include "world.h"

#include "test.h"

OWNED_BY(tarry_sim, tarry_sim_free)

void world_init(world *all)
{
    *all = (world){.straggler_seed = 1};
    tarry_plan_settings_init(&all->plan_settings);
    tarry_sim_settings_init(&all->settings);
    all->settings.server.silence_ns = TARRY_NEVER / 4;
}

void world_begin(world *all)
{
    tarry_diagnostic why = {{0}};
    int error = tarry_plan_create(&all->plan_settings, NULL, &all->plan, &why);
    if (error == TARRY_OK && all->spec != NULL)
        error = tarry_straggler_create(all->spec, all->plan_settings.workers, all->straggler_seed,
                                       NULL, &all->straggler, &why);
    all->settings.straggler = all->straggler;
    if (error == TARRY_OK)
        error = tarry_sim_create(all->plan, &all->settings, NULL, &all->sim, &why);
    assert_ok_or(why, error);
}

void world_end(world *all)
{
    tarry_sim_free(all->sim);
    tarry_straggler_free(all->straggler);
    tarry_plan_free(all->plan);
}

tarry_round_result world_round(world *all)
{
    tarry_round_result result;
    assert_ok(tarry_sim_round(all->sim, &result));
    assert_int_equal(all->sim->now, result.end_ns);
    return result;
}

int world_attempt(void *user, const tarry_allocator *allocator)
{
    const world *all = user;
    OWNED(tarry_sim) sim = NULL;
    tarry_round_result result;
    int error = tarry_sim_create(all->plan, &all->settings, allocator, &sim, NULL);
    for (int round = 0; round < 2 && error == TARRY_OK; round++)
        error = tarry_sim_round(sim, &result);
    return error;
}

double world_seconds(const tarry_round_result *result)
{
    return (double)(result->end_ns - result->start_ns) * 1e-9;
}
