/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/invariants.h"

/* The workers that a step's effects leave out for the reason, a bit each. */
static uint32_t left_out(const tarry_effects *effects, tarry_absence reason)
{
    uint32_t workers = 0;
    for (size_t i = 0; i < effects->count; i++)
        if (effects->items[i].type == TARRY_EFFECT_LEFT_OUT && effects->items[i].reason == reason)
            workers |= bit(effects->items[i].worker);
    return workers;
}

/* Presence changes by events; and by the server alone when a probe stays unanswered. */
void invariants_of_presence(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->model.members[worker];
        bool present = tarry_server_present(it->server, worker);
        if (present == member->present)
            continue;
        bool silent =
            member->probed != TARRY_NEVER && it->now - member->probed >= it->settings.silence_ns;
        if (present || !silent)
            invariant_broken(it, "only_the_silent_are_given_up", "worker %u: present %d, probed %d",
                             worker, present, member->probed != TARRY_NEVER);
        cluster_note(it, "server gives up worker %u", worker);
        it->counts.silent++;
        it->parted |= bit(worker);
        model_lose(&it->model, worker, TARRY_ABSENT_SILENT);
    }
}

/* Whether the others can compute what is missing without the late ones, and waiting for these has
 * cost as much. */
static bool can_make_up(const cluster *it, uint32_t late)
{
    const server_model *model = &it->model;
    uint64_t cost = it->settings.pick == TARRY_PICK_PLAN
                        ? model->result.signal_ns - model->result.start_ns
                        : 0; /* what the server has learned is its affair */
    for (uint32_t chunk = 0; chunk < model->chunks; chunk++)
        if (model_in(model, chunk) &&
            model->rank[model_possible(model, chunk) & ~late] < model->parts)
            return false;
    return it->settings.stop == TARRY_STOP_EXACT &&
           (model_foresees(model, it->now, late, cost) ||
            it->now - model->attempt_start >= it->settings.silence_ns / 4 + cost);
}

/* An attempt that nobody left ends only because the server passes over those who are late. */
void invariants_of_lateness(cluster *it, const tarry_effects *effects)
{
    server_model *model = &it->model;
    uint32_t late = left_out(effects, TARRY_ABSENT_LATE), owing = model_late(model);
    uint32_t senders = (uint32_t)__builtin_popcount(model->senders);
    uint32_t delivered = senders - (uint32_t)__builtin_popcount(owing);
    bool allowed = late != 0 && (late & ~owing) == 0 && !it->settings.reproducible &&
                   delivered > 0 && 2 * delivered >= senders;
    bool in_time = it->now - model->attempt_start >= it->settings.silence_ns / 4 ||
                   model_foresees(model, it->now, late, 0);
    bool as_good = model_holds(model, it->now, ~late) &&
                   model_at_most(model_error(model, ~late), model->attempt_missing) &&
                   model_at_most(model_left(model, ~late), model->attempt_left);
    allowed = allowed && in_time && (as_good || can_make_up(it, late));
    if (!allowed)
        invariant_broken(it, "passing_over_the_late_loses_nothing",
                         "late %#x, %u of %u delivered, error %g with", late, delivered, senders,
                         model->attempt_missing);
    it->counts.late++;
    it->counts.made_up += !as_good;
    model_exclude(model, late, TARRY_ABSENT_LATE);
}

/* How long the server waited for the worker, as far as the model knows, and whether the limit fits.
 */
static void check_figures(cluster *it, const tarry_effect *effect)
{
    const model_member *member = &it->model.members[effect->worker];
    bool limited = effect->reason == TARRY_ABSENT_SILENT || effect->reason == TARRY_ABSENT_LATE;
    uint64_t waited = effect->waited_ns, silence = it->settings.silence_ns;
    bool suspect = it->everywhere && effect->reason == TARRY_ABSENT_LATE;
    bool good = suspect || limited == (effect->limit_ns != 0);
    if (effect->reason == TARRY_ABSENT_GONE)
        good = good && waited <= it->now - member->heard;
    if (effect->reason == TARRY_ABSENT_SILENT)
        good = good && effect->limit_ns >= silence && waited >= effect->limit_ns &&
               waited <= it->now - member->probed;
    if (!good)
        invariant_broken(it, "absences_are_told", "worker %u: waited %llu, limit %llu",
                         effect->worker, (unsigned long long)waited,
                         (unsigned long long)effect->limit_ns);
}

/* A step that leaves a worker out names it once, with the reason, before what follows. */
void invariants_of_absence(cluster *it, const tarry_effects *effects)
{
    uint32_t told[ABSENCES] = {0};
    bool follows = false;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        follows =
            follows || effect->type == TARRY_EFFECT_CLEAR || effect->type == TARRY_EFFECT_DONE ||
            (effect->type == TARRY_EFFECT_SEND && effect->message.type != TARRY_MESSAGE_PROBE &&
             effect->message.type != TARRY_MESSAGE_ROUND && /* to who joins */
             effect->message.type < TARRY_MESSAGE_ASK);     /* of the vote */
        if (effect->type != TARRY_EFFECT_LEFT_OUT)
            continue;
        /* Who was late in a sum may be left out of the next one, too. */
        bool again = (told[effect->reason] & bit(effect->worker)) != 0 &&
                     !(it->everywhere && effect->limit_ns == 0);
        if (follows || again)
            invariant_broken(it, "absences_are_told", "worker %u, late or again", effect->worker);
        told[effect->reason] |= bit(effect->worker);
        check_figures(it, effect);
    }
    for (uint32_t reason = 0; reason < ABSENCES; reason++)
        if (told[reason] != it->model.left[reason])
            invariant_broken(it, "absences_are_told", "reason %u: %#x, the model says %#x", reason,
                             told[reason], it->model.left[reason]);
}
