/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays above workers die in the middle of rounds. What is on its way through one is lost, and the
 * server is told nothing. Each worker below sees after a while that its relay is gone, takes
 * another one as the runtime would (protocol/relay), and tells the server through it. The server's
 * answer is there one way later. Where gradients are kept, the worker keeps what it has computed.
 */
#include "base/bitset.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "sim/world.h"

enum { DEAD = UINT32_MAX };

int relay_deaths_create(tarry_sim *sim)
{
    const tarry_allocator *allocator = &sim->allocator;
    const uint32_t workers = sim->plan->workers;
    sim->returns = UINT32_MAX;
    if (sim->settings.relay_deaths == 0)
        return TARRY_OK;
    sim->seconds = memory_allocate(allocator, sim->relays.lowest, sizeof(*sim->seconds));
    if (sim->seconds == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < sim->relays.lowest; i++)
        sim->seconds[i].lanes = sim->relays.items[i].children;
    if (sim->settings.server.keep != TARRY_KEEP_ALL)
        return TARRY_OK;
    sim->done_of = memory_allocate(allocator, workers, sizeof(*sim->done_of));
    sim->done_slots =
        memory_allocate(allocator, bitset_words(plan_edges(sim->plan)), sizeof(*sim->done_slots));
    if (sim->done_of == NULL || sim->done_slots == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++)
        sim->done_of[worker].round = TARRY_NEVER;
    return TARRY_OK;
}

void relay_deaths_free(tarry_sim *sim)
{
    memory_release(&sim->allocator, sim->seconds);
    memory_release(&sim->allocator, sim->done_of);
    memory_release(&sim->allocator, sim->done_slots);
}

/* Another one that lives and is not to die; the draw begins with any, and takes the next one. */
static uint32_t draw_victim(const tarry_sim *sim, random_stream *draws)
{
    const uint32_t count = sim->relays.lowest;
    uint32_t live = 0, drawn = random_below(draws, count);
    for (uint32_t i = 0; i < count; i++)
        live += sim->relays.items[i].dies_ns == TARRY_NEVER;
    if (live < 2)
        return UINT32_MAX;
    while (sim->relays.items[drawn].dies_ns != TARRY_NEVER)
        drawn = (drawn + 1) % count;
    return drawn;
}

int relay_deaths_plan(tarry_sim *sim)
{
    const uint64_t span = sim->took_ns > 0 ? sim->took_ns : sim->settings.chunk_ns;
    const uint64_t round = sim->settings.first_round + sim->round;
    random_stream draws = random_stream_make(sim->settings.seed, RANDOM_RELAY, (uint32_t)round,
                                             (uint32_t)(round >> 32));
    int error = TARRY_OK;
    for (uint32_t i = 0; i < sim->settings.relay_deaths && error == TARRY_OK; i++) {
        const uint32_t victim = draw_victim(sim, &draws);
        if (victim == UINT32_MAX)
            return TARRY_OK;
        const uint64_t after = (uint64_t)(random_uniform(&draws) * (double)span);
        const sim_event event = {.kind = SIM_RELAY_DIES, .node = victim};
        sim->relays.items[victim].dies_ns = network_after(sim->now, after);
        error = sim_schedule(sim, sim->relays.items[victim].dies_ns, &event, NULL);
    }
    return error;
}

/* ---- a death ---- */

static int die(tarry_sim *sim, uint32_t index)
{
    relays *all = &sim->relays;
    const relay *top;
    uint64_t there_ns;
    int error = TARRY_OK;
    sim->traffic.relays_died++;
    sim->seconds[index].lanes = DEAD;
    for (uint32_t worker = 0; worker < sim->plan->workers && error == TARRY_OK; worker++) {
        sim_part *part = &sim->parts[worker];
        if (part->sent && part->relay == index && !all->items[index].passed)
            part->sent = part->waits = false;
        if (all->parents[worker] != index || !sim->workers[worker].there)
            continue;
        sim->workers[worker].adrift = true;
        sim->workers[worker].seen = 0; /* over another relay it is a newcomer */
        const sim_event event = {.kind = SIM_NOTICES,
                                 .node = worker,
                                 .life = sim->workers[worker].life,
                                 .left_ns = sim->now};
        uint64_t notices_ns = network_after(sim->now, network_hop(&sim->network));
        notices_ns = network_after(notices_ns, sim->settings.relay_notice_ns);
        error = sim_schedule(sim, notices_ns, &event, NULL);
    }
    if (error == TARRY_OK && relays_lose(all, &sim->network, index, sim->now,
                                         sim->settings.dimension * sizeof(float), &top, &there_ns))
        error = relay_node_deliver(sim, top, there_ns);
    return error;
}

void relay_deaths_settle(tarry_sim *sim, uint32_t worker)
{
    const uint32_t own = sim->relays.parents[worker];
    uint32_t chosen[WIRE_PARENTS_MOST];
    if (sim->seconds == NULL || sim->seconds[own].lanes != DEAD)
        return;
    /* Two at least were alive when the last one died. */
    second_parents_choose(sim->seconds, sim->relays.lowest, own, worker, chosen);
    relays_adopt(&sim->relays, worker, chosen[0]);
    sim->seconds[chosen[0]].lanes++;
}

/* ---- the way back ---- */

static int say_again(tarry_sim *sim, const sim_event *event)
{
    sim_event onward = *event;
    relay_deaths_settle(sim, event->node);
    onward.kind = SIM_RETURNS;
    const uint64_t there_ns = relays_say(&sim->relays, &sim->network, event->node, sim->now);
    return sim_schedule(sim, there_ns, &onward, NULL);
}

static int come_back(tarry_sim *sim, const sim_event *event)
{
    const uint32_t worker = event->node;
    const uint64_t told_ns = relays_tell(&sim->relays, &sim->network, worker, sim->now);
    if (told_ns == TARRY_NEVER)
        return TARRY_OK; /* this relay dies, too: it will see that */
    sim->workers[worker].adrift = false;
    sim->traffic.workers_returned++;
    sim->traffic.repair_ns = network_later(sim->traffic.repair_ns, told_ns - event->left_ns);
    sim->returns = worker;
    int error =
        server_node_step(sim, &(tarry_event){.type = TARRY_EVENT_RETURNED, .worker = worker});
    sim->returns = UINT32_MAX;
    return error;
}

int relay_deaths_take(tarry_sim *sim, const sim_event *event)
{
    if (event->kind == SIM_RELAY_DIES)
        return die(sim, event->node);
    const sim_worker *node = &sim->workers[event->node];
    if (!node->there || node->life != event->life)
        return TARRY_OK; /* it comes back as another process */
    return event->kind == SIM_NOTICES ? say_again(sim, event) : come_back(sim, event);
}

/* ---- what is done ---- */

static size_t first_slot(const tarry_sim *sim, uint32_t worker)
{
    return sim->plan->worker_offset[worker];
}

uint64_t relay_deaths_spare(tarry_sim *sim, uint32_t worker, uint64_t round, uint32_t slot,
                            uint64_t time)
{
    if (sim->done_of == NULL)
        return time;
    sim_done *its = &sim->done_of[worker];
    if (its->round != round) {
        for (size_t i = first_slot(sim, worker); i < first_slot(sim, worker + 1); i++)
            bitset_reset(sim->done_slots, i);
        *its = (sim_done){.round = round, .slot = UINT32_MAX};
    }
    if (bitset_test(sim->done_slots, first_slot(sim, worker) + slot))
        return 0;
    if (its->slot == slot)
        return its->ends_ns > sim->now ? its->ends_ns - sim->now : 0;
    its->slot = slot;
    its->ends_ns = network_after(sim->now, time);
    return time;
}

bool relay_deaths_done(tarry_sim *sim, uint32_t worker, uint64_t round, uint32_t slot)
{
    if (sim->done_of == NULL || sim->done_of[worker].round != round)
        return false;
    const size_t at = first_slot(sim, worker) + slot;
    const bool before = bitset_test(sim->done_slots, at);
    bitset_set(sim->done_slots, at);
    return before;
}
