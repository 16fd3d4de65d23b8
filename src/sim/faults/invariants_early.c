/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/invariants.h"

static bool is_signal(const tarry_effect *effect)
{
    return effect->type == TARRY_EFFECT_SEND && effect->message.type == TARRY_MESSAGE_SIGNAL;
}

bool invariants_leaving(const cluster *it, const tarry_effects *effects)
{
    const server_model *model = &it->model;
    bool signals = false;
    for (size_t i = 0; i < effects->count; i++)
        signals = signals || is_signal(&effects->items[i]);
    return signals && it->settings.early && model->phase == MODEL_COMPUTING && !model->broken &&
           model_pick(model, it->now, UINT32_MAX) == 0 && !model_must_raise(model);
}

bool invariants_nobody_stays(const cluster *it)
{
    const server_model *model = &it->model;
    bool stays = !model->open || model->broken || model_is_stuck(model) ||
                 (it->everywhere && invariants_see_failing(it));
    for (uint32_t worker = 0; worker < it->workers; worker++)
        stays = stays || (model->members[worker].present && !model->members[worker].left);
    return !stays && model_decide(model, it->now, false) == VERDICT_SIGNAL;
}

/* With the plan's order nobody stays who has done all. */
static void check_who_stays(cluster *it)
{
    const server_model *model = &it->model;
    if (it->everywhere && (invariants_allow_waiting(it) || invariants_see_failing(it)))
        return; /* no attempt may open */
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->settings.pick == TARRY_PICK_PLAN && model_may_leave(model, worker))
            invariant_broken(it, "who_is_done_leaves", "worker %u stays", worker);
}

void invariants_of_leaving(cluster *it, const tarry_effects *effects)
{
    server_model *model = &it->model;
    bool first = !model->open;
    uint32_t all = (UINT32_C(1) << model->stripes) - 1, cleared = 0;
    uint32_t wanted = first && !it->everywhere ? all & ~model->complete : 0;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_CLEAR)
            cleared |= bit(effect->stripe);
        if (!is_signal(effect))
            continue;
        if (!model_may_leave(model, effect->worker))
            invariant_broken(it, "leaves_who_is_not_needed", "worker %u", effect->worker);
        if (it->everywhere && !model->open)
            invariants_of_opening(it);
        model_leave(model, it->now, effect->worker);
        it->left_early++;
        invariants_of_psi(it, effect);
        if (effect->message.attempt != model->attempt + 1)
            invariant_broken(it, "attempts_count_up", "%u", effect->message.attempt);
        if (effect->message.term != model->members[effect->worker].term)
            invariant_broken(it, "attempts_count_up", "term %u", effect->message.term);
    }
    if (cleared != wanted)
        invariant_broken(it, "complete_stripes_stand", "cleared %#x, open %#x", cleared, wanted);
    check_who_stays(it);
}
