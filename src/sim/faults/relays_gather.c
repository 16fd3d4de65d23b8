/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts that a relay adds up on the way: all of a group's count at once, or none. */
#include "sim/faults/cluster.h"
#include "sim/faults/invariants.h"

static relay_gather *gather_of(cluster *it, uint32_t number)
{
    return &it->gathers[number % MAX_GATHERS];
}

static bool is_of(const relay_gather *group, const tarry_message *message)
{
    return group->round == message->round && group->attempt == message->attempt;
}

/* The newest group of the relay; NULL: none. */
static relay_gather *newest_of(cluster *it, uint32_t relay)
{
    uint32_t first = it->relayed.gather_count, past = first;
    for (; past > 0 && past + MAX_GATHERS > first; past--) {
        relay_gather *group = gather_of(it, past - 1);
        if (group->relay == relay && group->life == it->relayed.relays[relay].life)
            return group;
    }
    return NULL;
}

static relay_gather *group_for(cluster *it, uint32_t relay, const tarry_message *signal)
{
    relay_gather *group = newest_of(it, relay);
    if (group != NULL && is_of(group, signal))
        return group;
    group = gather_of(it, it->relayed.gather_count);
    *group = (relay_gather){
        .number = it->relayed.gather_count++,
        .relay = relay,
        .life = it->relayed.relays[relay].life,
        .round = signal->round,
        .attempt = signal->attempt,
        .parts = signal->parts,
        .stripes = it->model.stripes,
        .arrived = it->model.complete,
    };
    return group;
}

/* Of a new attempt; who is signalled later sends its part alone. */
void relayed_begin_gathers(cluster *it, const tarry_effects *effects)
{
    if (!it->relayed.gathers)
        return;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        uint32_t worker = effect->worker;
        if (effect->type != TARRY_EFFECT_SEND || effect->message.type != TARRY_MESSAGE_SIGNAL ||
            effect->message.attempt != it->model.attempt || !it->nodes[worker].connected ||
            (it->model.settled & bit(worker)) || it->model.members[worker].due == 0)
            continue;
        uint32_t top = relayed_top(it, worker);
        if (top == NO_RELAY)
            continue;
        relay_gather *group = group_for(it, top, &effect->message);
        group->members |= bit(worker);
        group->epochs[worker] = effect->message.epoch;
        random_stream details;
        if (it->relayed.breaks_left > 0 &&
            draws_fault(&it->draws, FAULT_RELAY, top, it->relayed.breaks, &details)) {
            it->relayed.breaks_left--;
            uint64_t time = it->now + stream_between(&details, 0, it->encode_time + it->delay);
            cluster_add(it, time, ITEM_RELAY_DIES, top)->details = details;
        }
    }
}

/* What relays were at for a server that is gone is of no use. */
void relayed_drop_gathers(cluster *it)
{
    for (uint32_t relay = 0; relay < it->relayed.count; relay++)
        it->relayed.relays[relay].life++;
}

bool relayed_take_part(cluster *it, uint32_t worker, const tarry_message *message,
                       const coded *part)
{
    uint32_t top = relayed_top(it, worker);
    relay_gather *group = it->relayed.gathers && top != NO_RELAY ? newest_of(it, top) : NULL;
    if (group == NULL || !is_of(group, message) || !(group->members & bit(worker)) ||
        group->epochs[worker] != message->epoch)
        return false;
    uint32_t stripe = message->stripe;
    if (group->got[stripe] & bit(worker))
        return true;
    group->got[stripe] |= bit(worker);
    group->part[worker][stripe] = *part;
    if (group->got[stripe] != group->members)
        return true;
    uint64_t time = draws_between(&it->draws, DRAW_RELAY, worker, 0, it->delay + it->relayed.delay);
    cluster_item *sent = cluster_add(it, it->now + time, ITEM_GATHERED, group->relay);
    sent->token = group->number;
    sent->stripe = stripe;
    return true;
}

static tarry_message message_of(const relay_gather *group, uint32_t worker, uint32_t stripe)
{
    return (tarry_message){
        .type = TARRY_MESSAGE_PART,
        .round = group->round,
        .attempt = group->attempt,
        .epoch = group->epochs[worker],
        .parts = group->parts,
        .stripe = stripe,
    };
}

/* The members whose parts of the stripe would count now. */
static uint32_t wanted_of(const cluster *it, const relay_gather *group, uint32_t stripe)
{
    uint32_t wanted = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        tarry_message part = message_of(group, worker, stripe);
        if ((group->members & bit(worker)) && tarry_server_wants(it->server, worker, &part))
            wanted |= bit(worker);
    }
    return wanted;
}

static void stall(cluster *it)
{
    if (it->broken == NULL && !cluster_planted(it, PLANT_GATHER_TWICE) &&
        it->model.phase == MODEL_CODING && model_late(&it->model) != 0)
        cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_STALLED}, NULL);
}

/* A planted error: parts of an attempt that is over pass as those of the present one. */
static void renew(const cluster *it, uint32_t worker, tarry_message *part)
{
    part->attempt = it->model.attempt;
    part->epoch = it->model.members[worker].epoch;
}

static void take(cluster *it, const relay_gather *group, uint32_t stripe, bool forged)
{
    for (uint32_t worker = 0; worker < it->workers && it->broken == NULL; worker++) {
        if (!(group->members & bit(worker)))
            continue;
        tarry_message part = message_of(group, worker, stripe);
        if (forged)
            renew(it, worker, &part);
        tarry_event event = {.type = TARRY_EVENT_MESSAGE, .worker = worker, .message = &part};
        cluster_step_server(it, &event, &group->part[worker][stripe]);
    }
}

/* A planted error: the numbers of those who counted already are in the gathered part, too. */
static void add_again(cluster *it, const relay_gather *group, uint32_t stripe, uint32_t wanted)
{
    for (uint32_t worker = 0; worker < it->workers && it->broken == NULL; worker++) {
        if (!cluster_planted(it, PLANT_GATHER_TWICE) || !(group->members & ~wanted & bit(worker)) ||
            !(it->model.got[stripe] & bit(worker)))
            continue;
        cluster_item again = {
            .worker = worker, .stripe = stripe, .parts = group->parts, .scale = 1};
        again.part = group->part[worker][stripe];
        cluster_add_part(it, &again);
    }
}

void relayed_deliver(cluster *it, const cluster_item *due)
{
    relay_gather *group = gather_of(it, (uint32_t)due->token);
    if (group->number != due->token || group->life != it->relayed.relays[group->relay].life)
        return; /* it died with its relay */
    uint32_t stripe = due->stripe, wanted = wanted_of(it, group, stripe);
    group->arrived |= bit(stripe);
    bool forged = cluster_planted(it, PLANT_GATHER_STALE) && wanted == 0 &&
                  group->attempt != it->model.attempt && group->round == it->model.round &&
                  it->model.phase == MODEL_CODING && group->parts == it->model.parts;
    cluster_note(it, "from relay %u: stripe %u of %#x, wanted %#x", group->relay, stripe,
                 group->members, wanted);
    bool some = cluster_planted(it, PLANT_GATHER_TWICE) && wanted != 0;
    if (wanted == group->members || forged || some) {
        it->relayed.summed++;
        add_again(it, group, stripe, wanted);
        take(it, group, stripe, forged);
        return;
    }
    it->relayed.dropped++;
    if (wanted != 0)
        stall(it);
}

void relayed_stall(cluster *it, uint32_t worker, uint32_t epoch)
{
    for (uint32_t i = 0; i < it->relayed.gather_count && i < MAX_GATHERS; i++) {
        const relay_gather *group = gather_of(it, it->relayed.gather_count - 1 - i);
        bool open = group->arrived != bit(group->stripes) - 1 && group->round == it->model.round &&
                    group->attempt == it->model.attempt &&
                    group->life == it->relayed.relays[group->relay].life;
        if (open && (group->members & bit(worker)) && group->epochs[worker] == epoch) {
            stall(it);
            return;
        }
    }
}
