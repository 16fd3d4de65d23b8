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
    const double server = 1e9 / settings->server_bytes_per_second;
    const double up =
        link->up_bytes_per_second > 0 ? link->up_bytes_per_second : link->bytes_per_second;
    *state = (network){
        .allocator = memory_allocator(allocator),
        .latency_ns = link->latency_ns,
        .server = {.in.ns_per_byte = server, .out.ns_per_byte = server},
    };
    state->workers = memory_allocate(allocator, workers, sizeof(*state->workers));
    if (state->workers == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double factor = settings->link_factor != NULL ? settings->link_factor[worker] : 1;
        state->workers[worker].in.ns_per_byte = factor * 1e9 / link->bytes_per_second;
        state->workers[worker].out.ns_per_byte = factor * 1e9 / up;
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

uint64_t network_leave(const network *state, network_way *out, uint64_t now, uint64_t bytes,
                       uint64_t *first_ns)
{
    uint64_t start = network_later(now, out->free_ns);
    out->free_ns = network_after(start, duration(bytes, out->ns_per_byte));
    *first_ns = network_after(start, state->latency_ns);
    return out->free_ns;
}

uint64_t network_arrive(const network *state, network_way *in, uint64_t first_ns, uint64_t bytes,
                        uint64_t left_ns)
{
    uint64_t start = network_later(first_ns, in->free_ns);
    in->free_ns = network_after(start, duration(bytes, in->ns_per_byte));
    return network_later(in->free_ns, network_after(left_ns, state->latency_ns));
}
