/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that come back, and relays that die. */
#include "sim/faults/invariants.h"

#include "base/bitset.h"

/* Who came back is signalled in the step in which it owes no report any more, for what has not come
 * in of its part; nobody else is. */
void invariants_of_resent(cluster *it, const tarry_effects *effects, bool goes_on)
{
    server_model *model = &it->model;
    uint32_t expected = goes_on ? model_resent(model) : 0, told = 0;
    for (size_t i = 0; i < effects->count && goes_on; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type != TARRY_EFFECT_SEND || effect->message.type != TARRY_MESSAGE_SIGNAL ||
            it->everywhere)
            continue;
        told |= bit(effect->worker);
        uint32_t complete = model->complete, due = model->members[effect->worker].due;
        model->complete = due != 0 ? ~due : complete;
        invariants_of_psi(it, effect);
        model->complete = complete;
        if (effect->message.attempt != model->attempt)
            invariant_broken(it, "attempts_count_up", "%u", effect->message.attempt);
        model->members[effect->worker].signal_due = false;
    }
    if (!it->everywhere && told != expected)
        invariant_broken(it, "a_signal_waits_for_what_is_owed", "%#x told, %#x due", told,
                         expected);
}

/* With what adrift workers were credited with the chunk needs nothing more. */
static bool is_held(const cluster *it, uint32_t chunk)
{
    const server_model *model = &it->model;
    uint32_t held = model_credited(model, chunk, MODEL_EVERYONE);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->nodes[worker].child.held & bit(chunk))
            held |= bit(worker);
    return model->rank[model->least][held] == model->least;
}

void invariants_of_handing_out(cluster *it, const tarry_effects *effects)
{
    uint32_t held = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        held |= it->nodes[worker].child.held;
    for (size_t i = 0; i < effects->count && held != 0; i++) {
        const tarry_effect *effect = &effects->items[i];
        bool orders =
            effect->type == TARRY_EFFECT_SEND && (effect->message.type == TARRY_MESSAGE_RESUME ||
                                                  effect->message.type == TARRY_MESSAGE_NEWS);
        if (!orders || model_able(&it->model, effect->worker, MODEL_EVERYONE) == false)
            continue;
        uint32_t first = cluster_chunks_of(it->plan, effect->worker, effect->message.first);
        for (uint32_t chunk = 0; chunk < it->model.chunks; chunk++)
            if ((first & held & bit(chunk)) && it->model.most == it->model.least &&
                !(it->model.members[effect->worker].owed & bit(chunk)) && is_held(it, chunk))
                invariant_broken(it, "what_is_adrift_is_not_handed_out", "chunk %u, to worker %u",
                                 chunk, effect->worker);
    }
}
