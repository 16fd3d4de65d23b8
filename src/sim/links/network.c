/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/network.h"

#include <math.h>

#include "base/memory.h"

static uint64_t duration(uint64_t bytes, double ns_per_byte)
{
    double time = rint((double)bytes * ns_per_byte);
    return time < 0x1p64 ? (uint64_t)time : TARRY_NEVER;
}

int network_init(network *state, const tarry_sim_settings *settings, uint32_t workers,
                 const tarry_allocator *allocator)
{
    const tarry_sim_link *link = &settings->link;
    const network_way server = {.ns_per_byte = 1e9 / settings->server_bytes_per_second,
                                .shared = true};
    const double up =
        link->up_bytes_per_second > 0 ? link->up_bytes_per_second : link->bytes_per_second;
    const uint64_t message_ns = settings->way != TARRY_SIM_STAR ? link->message_ns : 0;
    *state = (network){
        .allocator = memory_allocator(allocator),
        .latency_ns = link->latency_ns,
        .jitter = jitter_make(settings),
        .server = {.in = server, .out = server},
        .card_shared = settings->card_shared,
    };
    state->workers = memory_allocate(allocator, workers, sizeof(*state->workers));
    if (state->workers == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double factor = settings->link_factor != NULL ? settings->link_factor[worker] : 1;
        state->workers[worker] = (network_node){
            .in = {.ns_per_byte = factor * 1e9 / link->bytes_per_second, .message_ns = message_ns},
            .out = {.ns_per_byte = factor * 1e9 / up, .message_ns = message_ns},
        };
    }
    return TARRY_OK;
}

void network_destroy(network *state)
{
    memory_release(&state->allocator, state->workers);
}

void network_renew(network *state, uint32_t worker, uint64_t now)
{
    state->workers[worker].in.free_ns = state->workers[worker].out.free_ns = now;
}

/* The bytes pass the card from *start on, which becomes when they begin to; gives back when they
 * have. */
static uint64_t pass(network_way *way, uint64_t *start, uint64_t bytes)
{
    uint64_t time = network_after(duration(bytes, way->ns_per_byte), way->message_ns);
    way->bytes += bytes;
    if (!way->shared || bytes > NETWORK_SMALL) {
        *start = network_later(*start, way->free_ns);
        return way->free_ns = network_after(*start, time);
    }
    *start = network_later(*start, way->small_ns);
    way->free_ns = network_after(network_later(way->free_ns, *start), time);
    return way->small_ns = network_after(*start, time);
}

uint64_t network_time(const network_way *way, uint64_t bytes)
{
    return duration(bytes, way->ns_per_byte);
}

uint64_t network_hop(network *state)
{
    return network_after(state->latency_ns, jitter_draw(&state->jitter));
}

uint64_t network_leave(network *state, network_way *out, uint64_t now, uint64_t bytes,
                       uint64_t *first_ns)
{
    const uint64_t waits_ns = jitter_draw(&state->jitter);
    uint64_t start = now, left_ns = pass(out, &start, bytes);
    *first_ns = network_after(network_after(start, waits_ns), state->latency_ns);
    return network_after(left_ns, waits_ns);
}

/* What the messages take together, all but the last byte's rounding. */
static uint64_t pass_many(network_way *way, uint64_t *start, uint64_t bytes, uint64_t messages)
{
    const uint64_t each = messages > 0 ? bytes / messages : 0;
    const uint64_t one = network_after(duration(each, way->ns_per_byte), way->message_ns);
    const uint64_t rest = duration(bytes - each * messages, way->ns_per_byte);
    way->bytes += bytes;
    *start = network_later(*start, way->free_ns);
    if (messages > 0 && one > (TARRY_NEVER - *start) / messages)
        return way->free_ns = TARRY_NEVER;
    return way->free_ns = network_after(*start + one * messages, rest);
}

uint64_t network_leave_many(const network *state, network_way *out, uint64_t now, uint64_t bytes,
                            uint64_t messages, uint64_t *first_ns)
{
    uint64_t start = now, left_ns = pass_many(out, &start, bytes, messages);
    *first_ns = network_after(start, state->latency_ns);
    return left_ns;
}

uint64_t network_arrive_many(network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                             uint64_t messages, uint64_t left_ns)
{
    const uint64_t waits_ns = jitter_longest(&state->jitter, messages);
    uint64_t start = first_ns, passed_ns = pass_many(in, &start, bytes, messages);
    return network_after(network_later(passed_ns, network_after(left_ns, state->latency_ns)),
                         waits_ns);
}

uint64_t network_arrive(const network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                        uint64_t left_ns)
{
    uint64_t start = first_ns, passed_ns = pass(in, &start, bytes);
    return network_later(passed_ns, network_after(left_ns, state->latency_ns));
}
