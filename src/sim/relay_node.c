/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and coded parts on their way through relays, and what cards carry. The server has a part
 * once the sum that it is in has come from the relay below it. */
#include <string.h>

#include "base/memory.h"
#include "protocol/wire/wire_trunk.h"
#include "sim/world.h"

int relay_node_create(tarry_sim *sim)
{
    sim->parts = memory_allocate(&sim->allocator, sim->plan->workers, sizeof(*sim->parts));
    int error = relays_init(&sim->relays, &sim->settings, sim->plan->workers, &sim->allocator);
    error = sim->parts != NULL ? error : TARRY_ERROR_NO_MEMORY;
    return error == TARRY_OK ? relay_deaths_create(sim) : error;
}

void relay_node_free(tarry_sim *sim)
{
    memory_release(&sim->allocator, sim->parts);
    relay_deaths_free(sim);
    if (sim->settings.relays > 0)
        relays_destroy(&sim->relays);
}

uint64_t relay_node_down(tarry_sim *sim, uint32_t worker, uint64_t bytes)
{
    if (sim->workers[worker].adrift)
        return TARRY_NEVER;
    if (bytes > NETWORK_SMALL)
        return sim->returns == worker
                   ? relays_resend(&sim->relays, &sim->network, worker, sim->now, bytes)
                   : relays_down(&sim->relays, &sim->network, worker, sim->now, bytes);
    sim->network.server.out.bytes += bytes;
    return relays_tell(&sim->relays, &sim->network, worker, sim->now);
}

void relay_node_signal(tarry_sim *sim, uint32_t worker, const tarry_message *signal, bool sends)
{
    if (sim->parts_round != signal->round || sim->parts_attempt != signal->attempt) {
        sim->parts_round = signal->round;
        sim->parts_attempt = signal->attempt;
        sim->parts_ns = sim->now;
        relays_forget(&sim->relays);
        memset(sim->parts, 0, sim->plan->workers * sizeof(*sim->parts));
    }
    sim_part *its = &sim->parts[worker];
    its->alone = its->told || sim->parts_ns < sim->now;
    its->told = true;
    if (sends && !its->alone && !sim->workers[worker].adrift &&
        !relays_cut(&sim->relays, worker, sim->now))
        relays_expect(&sim->relays, worker);
}

/* The worker's part comes in. */
static int arrive(tarry_sim *sim, uint32_t worker, uint64_t there_ns)
{
    sim_part *part = &sim->parts[worker];
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
    return sim_schedule(sim, there_ns, &event, NULL);
}

int relay_node_deliver(tarry_sim *sim, const relay *top, uint64_t there_ns)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < sim->plan->workers && error == TARRY_OK; worker++) {
        const sim_part *part = &sim->parts[worker];
        if (part->waits && &sim->relays.items[relays_top(&sim->relays, part->relay)] == top)
            error = arrive(sim, worker, there_ns);
    }
    return error;
}

/* The worker's part has left its first relay, which died then, in a sum: nothing of it is to be
 * sent once more, and it counts for what the worker is now. */
static int claim(tarry_sim *sim, uint32_t worker, uint32_t epoch)
{
    sim_part *its = &sim->parts[worker];
    its->epoch = epoch;
    return its->waits
               ? TARRY_OK
               : arrive(sim, worker, relays_say(&sim->relays, &sim->network, worker, sim->now));
}

int relay_node_up(tarry_sim *sim, uint32_t worker, const tarry_message *part, uint64_t bytes,
                  uint64_t *left_ns)
{
    const relay *top;
    uint64_t there_ns;
    *left_ns = sim->now;
    if (part->round != sim->parts_round || part->attempt != sim->parts_attempt)
        return TARRY_OK; /* an attempt that is over */
    if (sim->workers[worker].adrift || relays_cut(&sim->relays, worker, sim->now))
        return TARRY_OK; /* nobody takes it */
    sim_part *its = &sim->parts[worker];
    if (its->sent && sim->relays.items[its->relay].passed)
        return claim(sim, worker, part->epoch);
    bool last = false;
    if (its->alone)
        there_ns = relays_up_alone(&sim->relays, &sim->network, worker, sim->now, bytes, left_ns);
    else
        last = relays_up(&sim->relays, &sim->network, worker, sim->now, bytes,
                         sim->settings.dimension * sizeof(float), left_ns, &top, &there_ns);
    *its = (sim_part){.told = true,
                      .alone = its->alone,
                      .sent = !its->alone,
                      .waits = !its->alone,
                      .relay = sim->relays.parents[worker],
                      .life = sim->workers[worker].life,
                      .epoch = part->epoch,
                      .attempt = part->attempt,
                      .parts = part->parts,
                      .round = part->round,
                      .left_ns = *left_ns};
    if (its->alone)
        return arrive(sim, worker, there_ns);
    return last ? relay_node_deliver(sim, top, there_ns) : TARRY_OK;
}

/* Whether the report comes in one message with the one before: of the same relay and round, which
 * have not become too many. */
static bool is_in_batch(const tarry_sim *sim, relay *top, uint64_t round)
{
    bool together =
        top->batch_ns == sim->now && top->batch_round == round && top->batch < WIRE_BATCH_MOST;
    top->batch_ns = sim->now;
    top->batch_round = round;
    top->batch = together ? top->batch + 1 : 1;
    return together;
}

void sim_count_control(tarry_sim *sim, const sim_event *event)
{
    uint64_t bytes = codec_size(&sim->workers[event->node].shape, &event->message);
    bool counts = true;
    if (sim->settings.relays > 0) {
        relays *all = &sim->relays;
        relay *top = &all->items[relays_top(all, all->parents[event->node])];
        const bool reports = event->message.type == TARRY_MESSAGE_REPORT;
        counts = !reports || !is_in_batch(sim, top, event->message.round);
        bytes = reports ? WIRE_BATCH_REPORT_BYTES + WIRE_BATCH_LANE_BYTES +
                              (counts ? WIRE_BATCH_HEAD_BYTES : 0)
                        : WIRE_LANE_HEAD_BYTES + bytes;
        sim->network.server.in.bytes += bytes;
    }
    sim->traffic.root_messages += counts;
    sim->traffic.root_control_bytes += bytes;
}

/* ---- what cards carry ---- */

void sim_begin_traffic(tarry_sim *sim)
{
    sim->traffic = (tarry_sim_traffic){0};
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
    all->root_in = sim->network.server.in.bytes;
    all->root_out = sim->network.server.out.bytes;
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
