/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts on their way through relays, and what cards carry. The server has a part once the sum
 * that it is in has come from the relay below it. */
#include <string.h>

#include "base/memory.h"
#include "sim/world.h"

int relay_node_create(tarry_sim *sim)
{
    sim->parts = memory_allocate(&sim->allocator, sim->plan->workers, sizeof(*sim->parts));
    int error = relays_init(&sim->relays, &sim->settings, sim->plan->workers, &sim->allocator);
    return sim->parts != NULL ? error : TARRY_ERROR_NO_MEMORY;
}

void relay_node_free(tarry_sim *sim)
{
    memory_release(&sim->allocator, sim->parts);
    if (sim->settings.relays > 0)
        relays_destroy(&sim->relays);
}

uint64_t relay_node_down(tarry_sim *sim, uint32_t worker, uint64_t bytes)
{
    if (bytes > NETWORK_SMALL)
        return relays_down(&sim->relays, &sim->network, worker, sim->now, bytes);
    sim->network.server.out.bytes += bytes;
    return network_after(sim->now, relays_hops(&sim->relays, &sim->network));
}

void relay_node_signal(tarry_sim *sim, uint32_t worker, const tarry_message *signal, bool sends)
{
    if (sim->parts_round != signal->round || sim->parts_attempt != signal->attempt) {
        sim->parts_round = signal->round;
        sim->parts_attempt = signal->attempt;
        relays_forget(&sim->relays);
        memset(sim->parts, 0, sim->plan->workers * sizeof(*sim->parts));
    }
    if (sends)
        relays_expect(&sim->relays, worker);
}

/* The sum of those below `top` comes in. */
static int deliver(tarry_sim *sim, const relay *top, uint64_t there_ns)
{
    int error = TARRY_OK;
    for (uint32_t worker = top->first_worker; worker < top->past_worker && error == TARRY_OK;
         worker++) {
        sim_part *part = &sim->parts[worker];
        if (!part->waits)
            continue;
        part->waits = false;
        const sim_event event = {.kind = SIM_TO_SERVER,
                                 .node = worker,
                                 .life = part->life,
                                 .left_ns = part->left_ns,
                                 .message = {.type = TARRY_MESSAGE_PART,
                                             .round = part->round,
                                             .epoch = part->epoch,
                                             .attempt = part->attempt,
                                             .parts = part->parts}};
        error = sim_schedule(sim, there_ns, &event, NULL);
    }
    return error;
}

int relay_node_up(tarry_sim *sim, uint32_t worker, const tarry_message *part, uint64_t bytes,
                  uint64_t *left_ns)
{
    const relay *top;
    uint64_t there_ns;
    *left_ns = sim->now;
    if (part->round != sim->parts_round || part->attempt != sim->parts_attempt)
        return TARRY_OK; /* an attempt that is over */
    sim_part *its = &sim->parts[worker];
    bool last = relays_up(&sim->relays, &sim->network, worker, sim->now, bytes,
                          sim->settings.dimension * sizeof(float), left_ns, &top, &there_ns);
    *its = (sim_part){.waits = true,
                      .life = sim->workers[worker].life,
                      .epoch = part->epoch,
                      .attempt = part->attempt,
                      .parts = part->parts,
                      .round = part->round,
                      .left_ns = *left_ns};
    return last ? deliver(sim, top, there_ns) : TARRY_OK;
}

/* ---- what cards carry ---- */

void sim_begin_traffic(tarry_sim *sim)
{
    sim->signalled_ns = TARRY_NEVER;
    sim->network.server.in.bytes = sim->network.server.out.bytes = 0;
    for (uint32_t worker = 0; worker < sim->plan->workers; worker++)
        sim->network.workers[worker].in.bytes = sim->network.workers[worker].out.bytes = 0;
    for (uint32_t i = 0; sim->settings.relays > 0 && i < sim->relays.count; i++)
        sim->relays.items[i].card.in.bytes = sim->relays.items[i].card.out.bytes = 0;
}

void sim_end_traffic(tarry_sim *sim)
{
    tarry_sim_traffic *all = &sim->traffic;
    *all = (tarry_sim_traffic){.root_in = sim->network.server.in.bytes,
                               .root_out = sim->network.server.out.bytes};
    for (uint32_t i = 0; sim->settings.relays > 0 && i < sim->relays.count; i++) {
        const network_node *card = &sim->relays.items[i].card;
        all->inner_in = network_later(all->inner_in, card->in.bytes);
        all->inner_out = network_later(all->inner_out, card->out.bytes);
    }
    for (uint32_t worker = 0; worker < sim->plan->workers; worker++) {
        const network_node *card = &sim->network.workers[worker];
        all->leaf_in = network_later(all->leaf_in, card->in.bytes);
        all->leaf_out = network_later(all->leaf_out, card->out.bytes);
    }
    if (sim->signalled_ns != TARRY_NEVER)
        all->sum_ns = sim->result.end_ns - sim->signalled_ns;
}

tarry_sim_traffic tarry_sim_last_traffic(const tarry_sim *sim)
{
    return sim->traffic;
}
