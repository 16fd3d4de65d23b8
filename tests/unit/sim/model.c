/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"
#include "test.h"

void lone_copies(world *all, uint32_t workers, uint32_t pieces, const char *spec)
{
    world_init(all);
    all->plan_settings.workers = all->plan_settings.chunks = workers;
    all->plan_settings.replication = 1;
    all->plan_settings.pieces = pieces;
    all->plan_settings.design = TARRY_DESIGN_CYCLIC;
    all->plan_settings.order = TARRY_ORDER_AS_IS;
    all->spec = spec;
}

baseline *begin_summing(world *all, baseline_settings own, tarry_sim_way way)
{
    baseline *model;
    tarry_diagnostic why = {{0}};
    tarry_sim_settings settings = all->settings;
    settings.way = way;
    assert_ok_or(why, baseline_create(all->plan, &own, &settings, NULL, &model, &why));
    return model;
}

baseline *begin_model(world *all, baseline_settings own)
{
    bool ring = own.kind == BASELINE_ALL_REDUCE;
    return begin_summing(all, own, ring ? TARRY_SIM_RING : TARRY_SIM_STAR);
}

tarry_round_result model_round(baseline *model)
{
    tarry_round_result result;
    assert_ok(baseline_round(model, &result));
    return result;
}

tarry_round_result lone_round(world *all, baseline_settings own)
{
    world_begin(all);
    baseline *model = begin_model(all, own);
    tarry_round_result result = model_round(model);
    baseline_free(model);
    world_end(all);
    return result;
}
