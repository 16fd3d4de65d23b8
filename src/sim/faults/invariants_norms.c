/* SPDX-License-Identifier: Apache-2.0 */
/* The norms that the server goes by, and what it samples by them. */
#include <math.h>

#include "base/bitset.h"
#include "sim/faults/invariants.h"

/* The server goes by what workers said, of several by the first one's; and by the seed's draw. */
void invariants_of_norms(cluster *it)
{
    const server_model *model = &it->model;
    if (!it->normed)
        return;
    for (uint32_t chunk = 0; chunk < model->chunks; chunk++) {
        double norm = (double)tarry_server_norm(it->server, chunk),
               times = (double)tarry_server_weight(it->server, chunk);
        if (model_wants_norms(model) && norm != model->norm[chunk])
            invariant_broken(it, "norms_are_what_workers_said", "chunk %u: %g in place of %g",
                             chunk, norm, model->norm[chunk]);
        if (fabs(times - model->times[chunk]) > 1e-6 * model->times[chunk])
            invariant_broken(it, "samples_by_the_seed_and_norms", "chunk %u: %g in place of %g",
                             chunk, times, model->times[chunk]);
    }
}

/* Every chunk of the worker's comes once, and none before one that is larger: of equal ones, whose
 * rounded squares may differ, either. */
static void check_ranks(cluster *it, uint32_t worker, const uint32_t *ranked)
{
    const server_model *model = &it->model;
    uint32_t seen = 0, before = UINT32_MAX;
    for (uint32_t i = 0; i < tarry_plan_load(it->plan, worker); i++) {
        uint32_t chunk = tarry_plan_chunk(it->plan, worker, ranked[i]);
        if ((seen & bit(chunk)) ||
            (i > 0 && !model_at_most(model->size[chunk], model->size[before])))
            invariant_broken(it, "large_chunks_come_first", "worker %u: chunk %u behind %u", worker,
                             chunk, before);
        seen |= bit(chunk);
        before = chunk;
    }
}

/* Everyone is told of the same sample, and to compute the largest first. */
void invariants_of_round(cluster *it, const tarry_effect *effect)
{
    const server_model *model = &it->model;
    const tarry_message *round = &effect->message;
    uint32_t load = tarry_plan_load(it->plan, effect->worker);
    if ((round->weights != NULL) != (it->settings.sample_chunks > 0) ||
        (round->ranked != NULL) != model->ranks)
        invariant_broken(it, "rounds_say_what_is_sampled", "worker %u", effect->worker);
    for (uint32_t slot = 0; round->weights != NULL && slot < load; slot++) {
        uint32_t chunk = tarry_plan_chunk(it->plan, effect->worker, slot);
        if (fabs((double)round->weights[slot] - model->times[chunk]) > 1e-6 * model->times[chunk])
            invariant_broken(it, "rounds_say_what_is_sampled",
                             "worker %u, chunk %u: %g in place of %g", effect->worker, chunk,
                             (double)round->weights[slot], model->times[chunk]);
    }
    if (round->ranked != NULL)
        check_ranks(it, effect->worker, round->ranked);
}

/* What was not sampled nobody computes. */
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
