/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/relays.h"

#include "base/memory.h"

#define SERVER UINT32_MAX

static uint32_t divide_up(uint32_t count, uint32_t by)
{
    return count / by + (count % by != 0);
}

static relay *relay_at(relays *all, uint32_t index)
{
    return index == SERVER ? &all->server : &all->items[index];
}

/* `count` nodes, of which the first is `first` (workers: none), get parents from `above` on. */
static void put_above(relays *all, uint32_t tier_first, uint32_t count, uint32_t above,
                      uint32_t workers)
{
    for (uint32_t i = 0; i < count; i++) {
        relay *parent = &all->items[above + i / all->fan_in];
        uint32_t first = i, past = i + 1;
        if (tier_first != SERVER) {
            relay *below = &all->items[tier_first + i];
            below->parent = above + i / all->fan_in;
            first = below->first_worker;
            past = below->past_worker;
        }
        if (parent->children++ == 0)
            parent->first_worker = first;
        parent->past_worker = past < workers ? past : workers;
    }
}

int relays_init(relays *all, const tarry_sim_settings *settings, uint32_t workers,
                const tarry_allocator *allocator)
{
    const tarry_sim_link *link = &settings->link;
    const double up =
        link->up_bytes_per_second > 0 ? link->up_bytes_per_second : link->bytes_per_second;
    *all = (relays){.allocator = memory_allocator(allocator), .fan_in = settings->relays};
    uint32_t width = workers;
    do {
        width = divide_up(width, all->fan_in);
        all->count += width;
        all->tiers++;
    } while (width > RELAYS_TOP);
    all->top = width;
    all->items = memory_allocate(allocator, all->count, sizeof(*all->items));
    if (all->items == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const relay idle = {.card = {.in = {.ns_per_byte = 1e9 / up},
                                 .out = {.ns_per_byte = 1e9 / link->bytes_per_second}},
                        .parent = SERVER,
                        .announced_ns = TARRY_NEVER};
    for (uint32_t i = 0; i < all->count; i++)
        all->items[i] = idle;
    uint32_t first = SERVER, above = 0;
    width = workers;
    for (uint32_t tier = 0; tier < all->tiers; tier++) {
        put_above(all, first, width, above, workers);
        width = divide_up(width, all->fan_in);
        first = above;
        above += width;
    }
    all->server = (relay){.children = all->top, .announced_ns = TARRY_NEVER};
    return TARRY_OK;
}

void relays_destroy(relays *all)
{
    memory_release(&all->allocator, all->items);
}

uint64_t relays_hops(const relays *all, network *state)
{
    uint64_t takes_ns = 0;
    for (uint32_t hop = 0; hop <= all->tiers; hop++)
        takes_ns = network_after(takes_ns, network_hop(state));
    return takes_ns;
}

/* ---- down ---- */

static uint64_t block_of(uint64_t bytes)
{
    return bytes < RELAYS_BLOCK_BYTES ? bytes : RELAYS_BLOCK_BYTES;
}

/* The node has all bytes at has_ns, and of the first block at first_ns: it sends them to all below
 * it, block by block, and they are there at the same time. */
static void announce(relay *its, network *state, network_way *out, uint64_t now, uint64_t first_ns,
                     uint64_t has_ns, uint64_t bytes)
{
    const uint64_t block_ns = network_time(out, its->children * block_of(bytes));
    uint64_t unused_ns, begins_ns = network_later(first_ns, out->free_ns);
    uint64_t left_ns = network_leave(state, out, first_ns, its->children * bytes, &unused_ns);
    left_ns = network_later(left_ns, network_after(has_ns, block_ns));
    out->free_ns = left_ns;
    its->announced_ns = now;
    its->below_ns = network_after(network_after(begins_ns, block_ns), state->latency_ns);
    its->all_below_ns = network_after(left_ns, state->latency_ns);
}

/* What node `index` passed on, which it does now if it has not. */
static const relay *passed_on(relays *all, network *state, uint32_t index, uint64_t now,
                              uint64_t bytes)
{
    relay *its = relay_at(all, index);
    if (its->announced_ns == now)
        return its;
    if (index == SERVER) {
        announce(its, state, &state->server.out, now, now, now, bytes);
        return its;
    }
    const relay *above = passed_on(all, state, its->parent, now, bytes);
    uint64_t has_ns =
        network_arrive(state, &its->card.in, network_later(now, above->below_ns), bytes, 0);
    has_ns = network_later(has_ns, above->all_below_ns);
    its->card.in.free_ns = has_ns;
    announce(its, state, &its->card.out, now, above->below_ns, has_ns, bytes);
    return its;
}

uint64_t relays_down(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes)
{
    const relay *above = passed_on(all, state, worker / all->fan_in, now, bytes);
    network_way *in = &state->workers[worker].in;
    uint64_t has_ns = network_arrive(state, in, above->below_ns, bytes, 0);
    return in->free_ns = network_later(has_ns, above->all_below_ns);
}

/* ---- up ---- */

void relays_forget(relays *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        relay *its = &all->items[i];
        its->awaited = its->got = 0;
        its->begins_ns = its->has_ns = 0;
    }
}

void relays_expect(relays *all, uint32_t worker)
{
    for (uint32_t i = worker / all->fan_in; i != SERVER; i = all->items[i].parent)
        if (all->items[i].awaited++ > 0)
            return;
}

/* `bytes` of one below come in, the first one at first_ns. Those of all below share the card, so
 * that all first blocks are there soon after the last one begins. */
static void take(const network *state, relay *its, uint64_t first_ns, uint64_t bytes,
                 uint64_t left_ns)
{
    const uint64_t blocks_ns = network_time(&its->card.in, its->awaited * block_of(bytes));
    uint64_t there_ns = network_arrive(state, &its->card.in, first_ns, bytes, left_ns);
    its->got++;
    its->begins_ns = network_later(its->begins_ns, network_after(first_ns, blocks_ns));
    its->has_ns = network_later(its->has_ns, there_ns);
}

bool relays_up(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes,
               uint64_t sum_bytes, uint64_t *left_ns, const relay **top, uint64_t *there_ns)
{
    uint64_t first_ns;
    *left_ns = network_leave(state, &state->workers[worker].out, now, bytes, &first_ns);
    relay *its = &all->items[worker / all->fan_in];
    take(state, its, first_ns, bytes, *left_ns);
    while (its->got == its->awaited) {
        network_way *out = &its->card.out;
        uint64_t sent_ns = network_leave(state, out, its->begins_ns, sum_bytes, &first_ns);
        uint64_t block_ns = network_time(out, block_of(sum_bytes));
        sent_ns = network_later(sent_ns, network_after(its->has_ns, block_ns));
        out->free_ns = sent_ns;
        if (its->parent == SERVER) {
            *top = its;
            *there_ns = network_arrive(state, &state->server.in, first_ns, sum_bytes, sent_ns);
            return true;
        }
        its = &all->items[its->parent];
        take(state, its, first_ns, sum_bytes, sent_ns);
    }
    return false;
}
