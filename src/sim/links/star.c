/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/star.h"

void star_share(network *state, uint64_t now, uint32_t count, uint64_t bytes)
{
    if (!state->card_shared || bytes <= NETWORK_SMALL)
        return;
    uint64_t first_ns;
    state->together = count;
    state->begins_ns = network_later(now, state->server.out.free_ns);
    for (uint32_t i = 0; i < count; i++)
        state->leaves_ns = network_leave(state, &state->server.out, now, bytes, &first_ns);
}

uint64_t star_down(network *state, uint32_t worker, uint64_t now, uint64_t bytes)
{
    network_way *in = &state->workers[worker].in;
    uint64_t first_ns, left_ns;
    if (state->together > 0 && bytes > NETWORK_SMALL) {
        state->together--;
        first_ns = network_after(state->begins_ns, state->latency_ns);
        left_ns = state->leaves_ns;
    } else {
        left_ns = network_leave(state, &state->server.out, now, bytes, &first_ns);
    }
    /* All of it is one flow, in which nothing comes before the last byte of what was sent before.
     */
    return in->free_ns = network_arrive(state, in, first_ns, bytes, left_ns);
}

uint64_t star_up(network *state, uint32_t worker, uint64_t now, uint64_t bytes, uint64_t *first_ns)
{
    return network_leave(state, &state->workers[worker].out, now, bytes, first_ns);
}

uint64_t star_receive(network *state, uint64_t now, uint64_t bytes, uint64_t left_ns)
{
    return network_arrive(state, &state->server.in, now, bytes, left_ns);
}
