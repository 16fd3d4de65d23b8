/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers do among themselves where everyone gets the sum. An engine begins at each worker
 * when that is told to, and all of them end once everybody in the group has begun and the numbers
 * have passed the links; one that stops before its last byte has left keeps the others waiting
 * until the server tells them. All sums have the same bits, steps take no time, and nobody keeps a
 * checkpoint.
 */
#include "base/bitset.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "sim/links/group_sum.h"
#include "sim/world.h"

int group_create(tarry_sim *sim)
{
    sim_group *group = &sim->group;
    const uint32_t workers = sim->plan->workers;
    group->members = memory_allocate(&sim->allocator, workers, sizeof(*group->members));
    group->times = memory_allocate(&sim->allocator, workers, 2 * sizeof(*group->times));
    return group->members != NULL && group->times != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void group_free(tarry_sim *sim)
{
    memory_release(&sim->allocator, sim->group.members);
    memory_release(&sim->allocator, sim->group.times);
}

/* The task's end, if it is to come, does not come any more. */
static void drop_end(tarry_sim *sim, sim_replica *own)
{
    if (own->end != QUEUE_NONE)
        queue_remove(&sim->queue, own->end);
    own->end = QUEUE_NONE;
}

static int end_at(tarry_sim *sim, uint32_t id, uint64_t time, sim_event_kind kind,
                  const tarry_sum_id *sum, bool failed)
{
    sim_worker *node = &sim->workers[id];
    const sim_event event = {.kind = kind,
                             .node = id,
                             .life = node->life,
                             .message = {.sum = *sum, .failed = failed, .from = TARRY_NO_WORKER}};
    node->replica.ends_ns = time;
    return sim_schedule(sim, time, &event, &node->replica.end);
}

/* ---- sums ---- */

static void add_up(tarry_sim *sim, uint32_t count, uint32_t parts, double scale)
{
    for (uint32_t stripe = 0; stripe < sim_layout(sim, parts).stripes; stripe++) {
        vectors_clear(sim->vectors, parts, stripe);
        for (uint32_t place = 0; place < count; place++)
            if (!sim->workers[sim->group.members[place]].replica.empty)
                vectors_combine(sim->vectors, 0, sim->group.members[place], parts, stripe, scale);
        vectors_send_sum(sim->vectors, stripe);
    }
}

/* Everybody has begun. */
static int finish(tarry_sim *sim, const tarry_effect *effect)
{
    sim_group *group = &sim->group;
    uint64_t *ready_ns = group->times, *done_ns = group->times + sim->plan->workers, moved;
    const group_sum sum = {.members = group->members,
                           .count = group->begun,
                           .dimension = sim->settings.dimension,
                           .parts = effect->parts,
                           .up = form_of(&sim->settings.server),
                           .down = form_of_sums(&sim->settings.server)};
    tarry_sum_id made = group->name;
    made.digest = 1; /* of equal bits everywhere */
    for (uint32_t place = 0; place < sum.count; place++)
        ready_ns[place] = sim->workers[group->members[place]].replica.begun_ns;
    int error = group_sum_run(&sim->network, sim->settings.way, &sum, ready_ns, done_ns, &moved);
    if (error != TARRY_OK)
        return error;
    sim->moved_bytes += moved;
    if (sim->vectors != NULL)
        add_up(sim, sum.count, effect->parts, effect->scale);
    for (uint32_t place = 0; place < sum.count && error == TARRY_OK; place++)
        error = end_at(sim, group->members[place], done_ns[place], SIM_REDUCED, &made, false);
    return error;
}

static int reduce(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    sim_group *group = &sim->group;
    sim_replica *own = &sim->workers[id].replica;
    const uint64_t *bits = effect->message.group;
    if (!sum_id_named(&group->name, &effect->sum)) {
        group->name = effect->sum;
        group->begun = group->count = 0;
        group->broken = false;
        for (uint32_t worker = 0; worker < sim->plan->workers; worker++)
            if (bitset_test(bits, worker))
                group->members[group->count++] = worker;
    }
    own->reduces = true;
    own->empty = effect->empty;
    own->begun_ns = sim->now;
    own->held = (tarry_sum_id){0};
    group->begun++;
    return group->begun == group->count && !group->broken ? finish(sim, effect) : TARRY_OK;
}

/* A member ends too early: who has not got its last byte never gets it. */
static void leave_group(tarry_sim *sim, uint32_t id)
{
    sim_group *group = &sim->group;
    uint64_t last_ns = network_after(sim->now, sim->network.latency_ns);
    sim->workers[id].replica.reduces = false;
    group->broken = true;
    for (uint32_t place = 0; place < group->count; place++) {
        sim_replica *other = &sim->workers[group->members[place]].replica;
        if (other->reduces && other->ends_ns > last_ns)
            drop_end(sim, other);
    }
}

void group_stop(tarry_sim *sim, uint32_t id)
{
    sim_replica *own = &sim->workers[id].replica;
    drop_end(sim, own);
    if (own->reduces)
        leave_group(sim, id);
}

/* ---- fetches and loads ---- */

/* `bytes` come from `from`, if it has what is asked for: `sum`, or the state after it. */
static int transfer(tarry_sim *sim, uint32_t id, const tarry_effect *effect, bool has,
                    const tarry_sum_id *sum, uint64_t bytes, sim_event_kind kind)
{
    network *links = &sim->network;
    uint64_t asked_ns = network_after(sim->now, links->latency_ns), first_ns;
    if (!has || !sim->workers[effect->from].there)
        return end_at(sim, id, network_after(asked_ns, links->latency_ns), kind, &effect->sum,
                      true);
    uint64_t left_ns =
        network_leave(links, &links->workers[effect->from].out, asked_ns, bytes, &first_ns);
    uint64_t there_ns = network_arrive(links, &links->workers[id].in, first_ns, bytes, left_ns);
    sim->moved_bytes += bytes;
    sim->workers[id].replica.from = effect->from;
    sim->workers[id].replica.from_life = sim->workers[effect->from].life;
    return end_at(sim, id, there_ns, kind, sum, false);
}

static int fetch(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    const sim_replica *source = &sim->workers[effect->from].replica;
    sim->workers[id].replica.held = (tarry_sum_id){0};
    return transfer(sim, id, effect, sum_id_same(&source->held, &effect->sum), &effect->sum,
                    sim->settings.dimension * sizeof(float), SIM_FETCHED);
}

static int load(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    const sim_replica *source = &sim->workers[effect->from].replica;
    bool has = effect->from != id &&
               (source->last.step > effect->sum.step || sum_id_same(&source->last, &effect->sum));
    return transfer(sim, id, effect, has, &source->last, sim->settings.parameter_bytes, SIM_LOADED);
}

int group_take_effect(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    switch (effect->type) {
    case TARRY_EFFECT_REDUCE:
        return reduce(sim, id, effect);
    case TARRY_EFFECT_FETCH:
        return fetch(sim, id, effect);
    case TARRY_EFFECT_LOAD:
        return load(sim, id, effect);
    case TARRY_EFFECT_STEP:
        return end_at(sim, id, sim->now, SIM_STEPPED, &effect->sum, false);
    case TARRY_EFFECT_STOP: /* it keeps nothing of it */
        group_stop(sim, id);
        return end_at(sim, id, sim->now, SIM_REDUCED, &effect->sum, true);
    default:
        group_stop(sim, id);
        return TARRY_OK;
    }
}

/* ---- ends ---- */

tarry_event group_end(tarry_sim *sim, const sim_event *event)
{
    sim_replica *own = &sim->workers[event->node].replica;
    const sim_worker *source = &sim->workers[own->from];
    tarry_event ends = {
        .sum = event->message.sum, .failed = event->message.failed, .from = TARRY_NO_WORKER};
    own->end = QUEUE_NONE;
    own->reduces = false;
    if (event->kind == SIM_FETCHED || event->kind == SIM_LOADED)
        ends.failed = ends.failed || !source->there || source->life != own->from_life;
    switch (event->kind) {
    case SIM_REDUCED:
        ends.type = TARRY_EVENT_REDUCED;
        if (!ends.failed)
            own->held = ends.sum;
        break;
    case SIM_FETCHED:
        ends.type = TARRY_EVENT_FETCHED;
        if (!ends.failed)
            own->held = ends.sum;
        break;
    case SIM_LOADED:
        ends.type = TARRY_EVENT_LOADED;
        if (!ends.failed) {
            own->last = ends.sum;
            own->held = (tarry_sum_id){0};
        }
        break;
    default:
        ends.type = TARRY_EVENT_STEPPED;
        own->last = ends.sum;
        break;
    }
    return ends;
}
