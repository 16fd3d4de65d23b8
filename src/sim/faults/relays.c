/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/relays.h"

#include <string.h>

#include "sim/faults/cluster.h"
#include "sim/faults/invariants.h"

enum { MOST_DELAY = 10, MOST_BATCH = 10, MOST_DEATHS = 4, SOON = 20 };

static uint32_t between(cluster *it, uint32_t least, uint32_t most)
{
    return draws_between(&it->draws, DRAW_RELAY, 0, least, most);
}

static bool chance(cluster *it, double probability)
{
    return draws_chance(&it->draws, DRAW_RELAY, 0, probability);
}

static bool is_alive(const cluster *it, uint32_t relay)
{
    return relay == NO_RELAY || it->now >= it->relayed.relays[relay].dead_until;
}

/* Whether messages pass: it, and the one above it, live. */
static bool passes(const cluster *it, uint32_t relay)
{
    return is_alive(it, relay) &&
           (relay == NO_RELAY || is_alive(it, it->relayed.relays[relay].above));
}

static uint32_t draw_parent(cluster *it)
{
    uint32_t drawn = between(it, 0, it->relayed.count);
    return drawn < it->relayed.count ? drawn : NO_RELAY;
}

void relayed_set_up(cluster *it, uint32_t horizon)
{
    relay_world *of = &it->relayed;
    if (it->job.relays == 0)
        return;
    of->count = between(it, 1, it->job.relays);
    of->delay = between(it, 0, MOST_DELAY);
    of->batch = between(it, 1, MOST_BATCH);
    of->grace =
        between(it, (uint32_t)it->settings.silence_ns / 8, (uint32_t)it->settings.silence_ns);
    of->gathers = !it->everywhere && !it->settings.reproducible && chance(it, 0.7);
    of->gathers = of->gathers && !it->feedback.on; /* what relays add up is not rounded */
    for (uint32_t relay = 0; relay < of->count; relay++) {
        bool nested = relay > 0 && chance(it, 0.4);
        uint32_t above = nested ? between(it, 0, relay - 1) : NO_RELAY;
        bool deep = above != NO_RELAY && of->relays[above].above != NO_RELAY;
        of->relays[relay].above = deep ? NO_RELAY : above;
    }
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        it->nodes[worker].child.relay = draw_parent(it);
        it->nodes[worker].child.second = draw_parent(it);
    }
    random_stream details;
    for (uint32_t deaths = between(it, 1, MOST_DEATHS); deaths > 0; deaths--) {
        uint32_t relay = between(it, 0, of->count - 1);
        if (!draws_fault(&it->draws, FAULT_RELAY, relay, 1, &details))
            continue;
        uint64_t time = stream_between(&details, 0, horizon);
        cluster_add(it, time, ITEM_RELAY_DIES, relay)->details = details;
    }
    of->breaks = chance(it, 0.5) ? 0.3 : 0;
    of->breaks_left = MOST_DEATHS;
    cluster_note(it, "%u relays, grace %llu%s", of->count, (unsigned long long)of->grace,
                 of->gathers ? ", parts are added up" : "");
}

uint32_t relayed_top(const cluster *it, uint32_t worker)
{
    uint32_t relay = it->nodes[worker].child.relay;
    if (it->relayed.count == 0 || relay == NO_RELAY)
        return NO_RELAY;
    uint32_t above = it->relayed.relays[relay].above;
    return above == NO_RELAY ? relay : above;
}

uint64_t relayed_delay(cluster *it, uint32_t worker)
{
    uint32_t top = relayed_top(it, worker);
    if (top == NO_RELAY)
        return 0;
    uint32_t relays = top == it->nodes[worker].child.relay ? 1 : 2;
    return draws_between(&it->draws, DRAW_RELAY, worker, 0, relays * it->relayed.delay);
}

uint64_t relayed_batch(const cluster *it, uint32_t worker, uint64_t arrival)
{
    uint64_t batch = it->relayed.batch;
    return relayed_top(it, worker) == NO_RELAY ? arrival : (arrival + batch - 1) / batch * batch;
}

/* Within the grace, as a rule. */
static void return_later(cluster *it, uint32_t worker, random_stream *details)
{
    cluster_node *node = &it->nodes[worker];
    uint32_t grace = (uint32_t)it->relayed.grace;
    uint32_t most = stream_chance(details, 0.8) ? grace : 3 * grace;
    uint64_t time = it->now + stream_between(details, 0, stream_chance(details, 0.5) ? SOON : most);
    node->returning = true;
    cluster_add(it, time, ITEM_RETURN, worker);
    cluster_add(it, it->now + grace + 1, ITEM_ADRIFT_OVER, worker)->connection = node->connection;
    cluster_disturb(it, time > it->now + grace + 1 ? time : it->now + grace + 1);
}

static void set_adrift(cluster *it, uint32_t worker, random_stream *details)
{
    cluster_node *node = &it->nodes[worker];
    const model_member *member = &it->model.members[worker];
    cluster_disconnect(it, worker, false);
    node->child.adrift = true;
    node->child.life = (uint32_t)node->life;
    bool counts = model_can_return(&it->model, worker) &&
                  it->settings.credit == TARRY_CREDIT_CHUNK &&
                  node->present.epoch == member->epoch && node->plan == it->number;
    node->child.held = counts ? member->done & ~member->owed : 0;
    if (!node->returning)
        return_later(it, worker, details);
    if (cluster_planted(it, PLANT_ADRIFT_LOST) && tarry_server_present(it->server, worker))
        cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker}, NULL);
}

/* Its children find their connections gone at once; so do those of the relays below. */
void relayed_die(cluster *it, uint32_t relay, random_stream *details)
{
    relay_world *of = &it->relayed;
    if (!is_alive(it, relay))
        return;
    cluster_note(it, "relay %u dies", relay);
    of->deaths++;
    of->relays[relay].life++;
    of->relays[relay].dead_until =
        it->now + 1 + stream_between(details, 0, 3 * (uint32_t)of->grace);
    cluster_disturb(it, of->relays[relay].dead_until);
    for (uint32_t worker = 0; worker < it->workers && it->broken == NULL; worker++) {
        uint32_t parent = it->nodes[worker].child.relay;
        bool below = parent == relay || (parent != NO_RELAY && of->relays[parent].above == relay);
        if (below && it->nodes[worker].connected)
            set_adrift(it, worker, details);
    }
}

void relayed_hold_nothing(cluster *it, uint32_t workers)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (workers & bit(worker))
            it->nodes[worker].child.held = 0;
}

void relayed_forget(cluster *it, uint32_t worker)
{
    it->nodes[worker].child.adrift = false;
    relayed_hold_nothing(it, bit(worker));
}

/* The next parent that lives: the second one, or the one before, or the server itself. */
static void change_parent(cluster *it, uint32_t worker)
{
    relay_child *child = &it->nodes[worker].child;
    uint32_t before = child->relay;
    child->relay = child->second;
    child->second = before;
    if (!passes(it, child->relay)) {
        child->second = child->relay;
        child->relay = passes(it, before) ? before : NO_RELAY;
    }
}

void relayed_choose_parent(cluster *it, uint32_t worker)
{
    if (it->relayed.count > 0 && !passes(it, it->nodes[worker].child.relay))
        change_parent(it, worker);
}

int relayed_return(cluster *it, const cluster_item *due)
{
    uint32_t worker = due->worker;
    cluster_node *node = &it->nodes[worker];
    bool same = node->child.adrift && node->machine != NULL && node->child.life == node->life &&
                node->plan == it->number;
    uint32_t epoch = it->model.members[worker].epoch;
    if (!same && it->model.members[worker].present)
        cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = worker}, NULL);
    relayed_forget(it, worker);
    change_parent(it, worker);
    int error = cluster_connect(it, worker);
    if (error != TARRY_OK || it->broken != NULL)
        return error;
    cluster_disturb(it, it->now);
    bool kept = same && model_can_return(&it->model, worker);
    it->relayed.returned += kept;
    tarry_event event = {.type =
                             same && !it->everywhere ? TARRY_EVENT_RETURNED : TARRY_EVENT_JOINED,
                         .worker = worker};
    cluster_step_server(it, &event, NULL);
    if (kept && it->broken == NULL)
        relayed_stall(it, worker, epoch);
    return TARRY_OK;
}

void relayed_give_up(cluster *it, const cluster_item *due)
{
    const cluster_node *node = &it->nodes[due->worker];
    if (!node->child.adrift || due->connection != node->connection)
        return;
    it->relayed.drifted++;
    relayed_forget(it, due->worker);
    if (it->model.members[due->worker].present)
        cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = due->worker},
                            NULL);
}
