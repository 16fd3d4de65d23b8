/* SPDX-License-Identifier: Apache-2.0 */
/* What the server samples. */
#include <math.h>

#include "protocol/server/server_state.h"
#include "worlds/invariants.h"

/* The server goes by the seed's draw. */
void invariants_of_draw(cluster *it)
{
    const server_model *model = &it->model;
    if (!cluster_samples(it))
        return;
    for (uint32_t chunk = 0; chunk < model->chunks; chunk++) {
        double times = (double)server_weight(it->server, chunk);
        if (fabs(times - model->times[chunk]) > 1e-6 * model->times[chunk])
            invariant_broken(it, "samples_by_the_seed", "chunk %u: %g in place of %g", chunk, times,
                             model->times[chunk]);
    }
}

/* All workers are told of the same sample. */
void invariants_of_round(cluster *it, const tarry_effect *effect)
{
    const server_model *model = &it->model;
    const tarry_message *round = &effect->message;
    uint32_t load = tarry_plan_load(it->plan, effect->worker);
    if ((round->weights != NULL) != cluster_samples(it))
        invariant_broken(it, "rounds_say_what_is_sampled", "worker %u", effect->worker);
    for (uint32_t slot = 0; round->weights != NULL && slot < load; slot++) {
        uint32_t chunk = tarry_plan_chunk(it->plan, effect->worker, slot);
        if (fabs((double)round->weights[slot] - model->times[chunk]) > 1e-6 * model->times[chunk])
            invariant_broken(it, "rounds_say_what_is_sampled",
                             "worker %u, chunk %u: %g in place of %g", effect->worker, chunk,
                             (double)round->weights[slot], model->times[chunk]);
    }
}

/* What was not sampled is not computed. */
void invariants_of_sample(cluster *it, uint32_t worker, uint32_t chunk)
{
    const cluster_node *node = &it->nodes[worker];
    const server_model *model = &it->model;
    bool same = node->present.epoch == model->members[worker].epoch &&
                node->present.round == model->round && node->present.plan == it->number &&
                model->phase != MODEL_IDLE && node->present.parameters == it->parameters;
    if (same && !model_in(model, chunk))
        invariant_broken(it, "only_what_is_sampled_is_computed", "chunk %u, by worker %u", chunk,
                         worker);
}
