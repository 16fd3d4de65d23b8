/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/network.h"

#include <math.h>

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t duration(uint64_t bytes, double ns_per_byte)
{
    double time = rint((double)bytes * ns_per_byte);
    return time < 0x1p64 ? (uint64_t)time : TARRY_NEVER;
}

network network_make(const tarry_sim_link *link, double server_bytes_per_second)
{
    return (network){
        .latency_ns = link->latency_ns,
        .link_ns_per_byte = 1e9 / link->bytes_per_second,
        .card_ns_per_byte = 1e9 / server_bytes_per_second,
    };
}

uint64_t network_down(network *state, network_link *link, uint64_t now, uint64_t bytes)
{
    uint64_t card_start = later(now, state->card_out_free_ns);
    uint64_t card_end = network_after(card_start, duration(bytes, state->card_ns_per_byte));
    state->card_out_free_ns = card_end;
    uint64_t link_start = later(card_start, link->down_free_ns);
    uint64_t link_end = network_after(link_start, duration(bytes, state->link_ns_per_byte));
    link->down_free_ns = later(link_end, card_end);
    return network_after(link->down_free_ns, state->latency_ns);
}

uint64_t network_up(const network *state, network_link *link, uint64_t now, uint64_t bytes,
                    uint64_t *first_ns)
{
    uint64_t start = later(now, link->up_free_ns);
    link->up_free_ns = network_after(start, duration(bytes, state->link_ns_per_byte));
    *first_ns = network_after(start, state->latency_ns);
    return link->up_free_ns;
}

uint64_t network_through_card(network *state, uint64_t now, uint64_t bytes, uint64_t left_ns)
{
    uint64_t start = later(now, state->card_in_free_ns);
    state->card_in_free_ns = network_after(start, duration(bytes, state->card_ns_per_byte));
    return later(state->card_in_free_ns, network_after(left_ns, state->latency_ns));
}
