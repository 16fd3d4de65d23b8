/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/invariants.h"

/* Copies of the chunk that are still needed. */
static uint32_t wanted(const server_model *model, uint32_t chunk)
{
    const uint32_t parts = model->parts;
    uint32_t credited = model_credited(model, chunk, UINT32_MAX);
    if (!model_in(model, chunk) || model->rank[credited] == parts)
        return 0;
    return set_size(credited) < parts ? parts - set_size(credited) : 1;
}

/* The workers that can still compute a copy, as far as the server knows. */
static uint32_t open_holders(const server_model *model, uint32_t chunk)
{
    return model_possible(model, chunk) & ~model_credited(model, chunk, UINT32_MAX);
}

static uint32_t all_holders(const server_model *model, uint32_t chunk)
{
    uint32_t holders = 0;
    for (uint32_t worker = 0; worker < model->workers; worker++)
        holders |= (model->holds[worker] & bit(chunk)) != 0 ? bit(worker) : 0;
    return holders;
}

static bool is_order(const cluster *it, const tarry_effect *effect, uint32_t worker)
{
    return effect->type == TARRY_EFFECT_SEND && effect->worker == worker &&
           cluster_says_order(it, &effect->message);
}

/* A chunk is kept from a worker if no copy is wanted, or if as many others as are can make them; of
 * those that were there when the step began. */
void invariants_of_order(cluster *it, const tarry_effects *effects, size_t index)
{
    const server_model *model = &it->model;
    const tarry_effect *effect = &effects->items[index];
    bool last = is_order(it, effect, effect->worker) && model->phase == MODEL_COMPUTING;
    for (size_t later = index + 1; later < effects->count; later++)
        last = last && !is_order(it, &effects->items[later], effect->worker);
    if (!last)
        return;
    uint32_t barred = cluster_chunks_of(it->plan, effect->worker, effect->message.barred);
    if (cluster_planted(it, PLANT_BAR_ALL) && effect->message.type == TARRY_MESSAGE_NEWS)
        barred = model->holds[effect->worker];
    if (it->settings.pick == TARRY_PICK_PLAN && barred != 0)
        invariant_broken(it, "barred_only_for_a_reason", "worker %u, by the plan's order",
                         effect->worker);
    for (uint32_t chunk = 0; chunk < model->chunks; chunk++) {
        if (!(barred & bit(chunk)))
            continue;
        uint32_t parted = it->parted & all_holders(model, chunk);
        uint32_t others = (open_holders(model, chunk) | parted) & ~bit(effect->worker);
        if (set_size(others) < wanted(model, chunk))
            invariant_broken(it, "barred_only_for_a_reason",
                             "worker %u, chunk %u: %u others for %u copies", effect->worker, chunk,
                             set_size(others), wanted(model, chunk));
    }
}

/* Whoever has something to do does it, and nobody does what is not wanted of them. */
void invariants_of_worker(cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    if (!node->computes) {
        if (node->at != 0)
            invariant_broken(it, "a_stopped_worker_stops", "worker %u is at %#x", worker, node->at);
        return;
    }
    if (node->replica.task == TASK_STEP || node->replica.task == TASK_LOAD)
        return; /* and then goes on */
    uint32_t open = node->holds & ~(node->present.made | node->failed | node->barred);
    bool astray = (node->at & open) == 0;
    if (it->settings.keep == TARRY_KEEP_CREDITED) {
        /* What was dropped may be asked for again; and it runs so far ahead alone. */
        astray = node->at == 0 ? set_size(node->open) <= it->settings.ahead
                               : (node->open & node->at) != 0;
    }
    if (astray && (node->at | open) != 0)
        invariant_broken(it, "a_worker_never_waits", "worker %u is at %#x, open %#x", worker,
                         node->at, open);
}

/* Whether the worker takes part in the round as the server knows it. */
static bool takes_part(const cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    const model_member *member = &it->model.members[worker];
    return node->machine != NULL && cluster_connected(it, worker) && node->computes &&
           member->present && node->present.epoch == member->epoch &&
           node->present.round == it->model.round && node->present.plan == it->number;
}

/* What the server can't know of counts as work; and so does a step. */
static bool rests(const cluster *it, uint32_t worker)
{
    const cluster_node *node = &it->nodes[worker];
    return takes_part(it, worker) && node->at == 0 && node->replica.task != TASK_STEP;
}

/* When no message is on its way, nobody is at a chunk of which no copy is wanted. */
static void check_waste(cluster *it)
{
    for (uint32_t chunk = 0; chunk < it->model.chunks; chunk++)
        for (uint32_t worker = 0; worker < it->workers && wanted(&it->model, chunk) == 0; worker++)
            if (takes_part(it, worker) && it->nodes[worker].at == bit(chunk))
                invariant_broken(it, "what_is_recovered_is_dropped", "chunk %u, by worker %u",
                                 chunk, worker);
}

/* A chunk of which copies are missing that could be made, but rest. */
static bool is_neglected(const cluster *it, uint32_t chunk)
{
    const server_model *model = &it->model;
    uint32_t holders = open_holders(model, chunk), busy = 0;
    uint32_t needed = wanted(model, chunk);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        busy += (holders & bit(worker)) && !rests(it, worker);
    return busy < (needed < set_size(holders) ? needed : set_size(holders));
}

static bool is_quiet(const cluster *it)
{
    const memory_event *event;
    for (size_t i = 0; (event = memory_network_look(it->network, i)) != NULL; i++)
        if (event->type == TRANSPORT_FRAME && event->head_size > 0)
            return false;
    return true;
}

/*
 * When no message is on its way, as many holders as copies of a chunk are missing are at work. It
 * may take the server a look at those that rest to see it: within an eighth of silence_ns, or a
 * quarter of what a chunk takes.
 */
void invariants_of_time(cluster *it, uint64_t time)
{
    if (it->model.phase != MODEL_COMPUTING || it->reorder_down) {
        it->idle_since = TARRY_NEVER;
        return;
    }
    if (!is_quiet(it))
        return;
    if (it->settings.pick != TARRY_PICK_PLAN)
        check_waste(it);
    uint32_t chunk = 0;
    while (chunk < it->model.chunks && !is_neglected(it, chunk))
        chunk++;
    if (chunk == it->model.chunks) {
        it->idle_since = TARRY_NEVER;
        return;
    }
    if (it->idle_since == TARRY_NEVER || it->idle_since < it->disturbed)
        it->idle_since = it->now > it->disturbed ? it->now : it->disturbed;
    if (time != TARRY_NEVER && time > it->idle_since && time - it->idle_since > it->patience)
        invariant_broken(it, "someone_works_on_what_is_missing",
                         "chunk %u, since %llu, for more than %llu", chunk,
                         (unsigned long long)it->idle_since, (unsigned long long)it->patience);
}
