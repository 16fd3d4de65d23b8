/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/relays.h"

#include "base/memory.h"

static uint32_t divide_up(uint32_t count, uint32_t by)
{
    return count / by + (count % by != 0);
}

static relay *relay_at(relays *all, uint32_t index)
{
    return index == RELAYS_SERVER ? &all->server : &all->items[index];
}

/* `count` nodes, of which the first is `first` (RELAYS_SERVER: workers), get parents from `above`
 * on. */
static void put_above(relays *all, uint32_t first, uint32_t count, uint32_t above)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t parent = above + i / all->fan_in;
        *(first != RELAYS_SERVER ? &all->items[first + i].parent : &all->parents[i]) = parent;
        all->items[parent].children++;
    }
}

int relays_init(relays *all, const tarry_sim_settings *settings, uint32_t workers,
                const tarry_allocator *allocator)
{
    const tarry_sim_link *link = &settings->link;
    const double up =
        link->up_bytes_per_second > 0 ? link->up_bytes_per_second : link->bytes_per_second;
    *all = (relays){.allocator = memory_allocator(allocator),
                    .fan_in = settings->relays,
                    .lowest = divide_up(workers, settings->relays),
                    .batch_ns = settings->relay_batch_ns};
    uint32_t width = workers;
    do {
        width = divide_up(width, all->fan_in);
        all->count += width;
        all->tiers++;
    } while (width > RELAYS_TOP);
    all->top = width;
    all->items = memory_allocate(allocator, all->count, sizeof(*all->items));
    all->parents = memory_allocate(allocator, workers, sizeof(*all->parents));
    if (all->items == NULL || all->parents == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const relay idle = {.card = {.in = {.ns_per_byte = 1e9 / up},
                                 .out = {.ns_per_byte = 1e9 / link->bytes_per_second}},
                        .parent = RELAYS_SERVER,
                        .dies_ns = TARRY_NEVER,
                        .announced_ns = TARRY_NEVER};
    for (uint32_t i = 0; i < all->count; i++)
        all->items[i] = idle;
    uint32_t first = RELAYS_SERVER, above = 0;
    width = workers;
    for (uint32_t tier = 0; tier < all->tiers; tier++) {
        put_above(all, first, width, above);
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
    memory_release(&all->allocator, all->parents);
}

uint32_t relays_top(const relays *all, uint32_t index)
{
    uint32_t top = index;
    while (all->items[top].parent != RELAYS_SERVER)
        top = all->items[top].parent;
    return top;
}

bool relays_cut(const relays *all, uint32_t worker, uint64_t now)
{
    return all->items[all->parents[worker]].dies_ns <= now;
}

void relays_adopt(relays *all, uint32_t worker, uint32_t parent)
{
    all->items[all->parents[worker]].children--;
    all->parents[worker] = parent;
    all->items[parent].children++;
}

/* ---- messages without vectors ---- */

/* Relays above workers alone may die, so that a message down passes at the worker's own. */
uint64_t relays_tell(const relays *all, network *state, uint32_t worker, uint64_t now)
{
    uint64_t time = now;
    for (uint32_t tier = 0; tier < all->tiers; tier++)
        time = network_after(time, network_hop(state));
    return relays_cut(all, worker, time) ? TARRY_NEVER : network_after(time, network_hop(state));
}

static uint64_t next_batch(const relays *all, uint64_t time)
{
    const uint64_t late = all->batch_ns > 0 ? time % all->batch_ns : 0;
    return late > 0 ? network_after(time, all->batch_ns - late) : time;
}

uint64_t relays_say(const relays *all, network *state, uint32_t worker, uint64_t now)
{
    uint64_t time = network_after(now, network_hop(state));
    if (relays_cut(all, worker, time))
        return TARRY_NEVER;
    for (uint32_t i = all->parents[worker]; i != RELAYS_SERVER; i = all->items[i].parent) {
        const uint64_t leaves_ns = next_batch(all, time);
        if (all->items[i].dies_ns < leaves_ns)
            return TARRY_NEVER;
        time = network_after(leaves_ns, state->latency_ns);
        time = network_after(time, jitter_at(&state->jitter, i, leaves_ns));
    }
    return time;
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
    if (index == RELAYS_SERVER) {
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
    const relay *above = passed_on(all, state, all->parents[worker], now, bytes);
    network_way *in = &state->workers[worker].in;
    uint64_t has_ns = network_arrive(state, in, above->below_ns, bytes, 0);
    in->free_ns = network_later(has_ns, above->all_below_ns);
    return network_after(above->dies_ns, state->latency_ns) < in->free_ns ? TARRY_NEVER
                                                                          : in->free_ns;
}

uint64_t relays_resend(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes)
{
    relay *its = &all->items[all->parents[worker]];
    uint64_t time = now, first_ns, left_ns;
    for (uint32_t tier = 0; tier < all->tiers; tier++)
        time = network_after(time, network_hop(state));
    if (its->announced_ns != TARRY_NEVER && its->announced_ns <= now)
        time = network_later(time, its->all_below_ns);
    left_ns = network_leave(state, &its->card.out, time, bytes, &first_ns);
    network_way *in = &state->workers[worker].in;
    in->free_ns = network_arrive(state, in, first_ns, bytes, left_ns);
    return its->dies_ns < left_ns ? TARRY_NEVER : in->free_ns;
}

/* ---- up ---- */

void relays_forget(relays *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        relay *its = &all->items[i];
        its->awaited = its->got = 0;
        its->passed = false;
        its->begins_ns = its->has_ns = 0;
    }
}

void relays_expect(relays *all, uint32_t worker)
{
    for (uint32_t i = all->parents[worker]; i != RELAYS_SERVER; i = all->items[i].parent)
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

/* When all bytes of a sum have left the relay, of which the first block can leave at begins_ns. */
static uint64_t pass_on(network *state, relay *its, uint64_t begins_ns, uint64_t has_ns,
                        uint64_t bytes, uint64_t *first_ns)
{
    network_way *out = &its->card.out;
    uint64_t left_ns = network_leave(state, out, begins_ns, bytes, first_ns);
    left_ns = network_later(left_ns, network_after(has_ns, network_time(out, block_of(bytes))));
    return out->free_ns = left_ns;
}

/* What a relay that has all sends on, and so on up. As relays_up. */
static bool climb(relays *all, network *state, relay *its, uint64_t sum_bytes, const relay **top,
                  uint64_t *there_ns)
{
    uint64_t first_ns;
    while (its->got == its->awaited) {
        uint64_t sent_ns = pass_on(state, its, its->begins_ns, its->has_ns, sum_bytes, &first_ns);
        if (sent_ns > its->dies_ns)
            return false;
        its->passed = true;
        if (its->parent == RELAYS_SERVER) {
            *top = its;
            *there_ns = network_arrive(state, &state->server.in, first_ns, sum_bytes, sent_ns);
            return true;
        }
        its = &all->items[its->parent];
        take(state, its, first_ns, sum_bytes, sent_ns);
    }
    return false;
}

bool relays_up(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes,
               uint64_t sum_bytes, uint64_t *left_ns, const relay **top, uint64_t *there_ns)
{
    uint64_t first_ns;
    *left_ns = network_leave(state, &state->workers[worker].out, now, bytes, &first_ns);
    relay *its = &all->items[all->parents[worker]];
    take(state, its, first_ns, bytes, *left_ns);
    return climb(all, state, its, sum_bytes, top, there_ns);
}

uint64_t relays_up_alone(relays *all, network *state, uint32_t worker, uint64_t now, uint64_t bytes,
                         uint64_t *left_ns)
{
    uint64_t first_ns, sent_ns;
    *left_ns = network_leave(state, &state->workers[worker].out, now, bytes, &first_ns);
    sent_ns = *left_ns;
    for (uint32_t i = all->parents[worker]; i != RELAYS_SERVER; i = all->items[i].parent) {
        relay *its = &all->items[i];
        const uint64_t has_ns = network_arrive(state, &its->card.in, first_ns, bytes, sent_ns);
        const uint64_t block_ns = network_time(&its->card.in, block_of(bytes));
        sent_ns = pass_on(state, its, network_after(first_ns, block_ns), has_ns, bytes, &first_ns);
        if (sent_ns > its->dies_ns)
            return TARRY_NEVER;
    }
    return network_arrive(state, &state->server.in, first_ns, bytes, sent_ns);
}

bool relays_lose(relays *all, network *state, uint32_t index, uint64_t now, uint64_t sum_bytes,
                 const relay **top, uint64_t *there_ns)
{
    relay *its = &all->items[index];
    if (its->awaited == 0 || its->passed)
        return false;
    its->awaited = its->got = 0;
    while (its->awaited == 0 && its->parent != RELAYS_SERVER) {
        its = &all->items[its->parent];
        its->awaited--;
    }
    if (its->awaited == 0)
        return false;
    its->begins_ns = network_later(its->begins_ns, now);
    its->has_ns = network_later(its->has_ns, now);
    return climb(all, state, its, sum_bytes, top, there_ns);
}
