/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/star.h"

uint64_t star_down(network *state, uint32_t worker, uint64_t now, uint64_t bytes)
{
    network_way *in = &state->workers[worker].in;
    uint64_t first_ns, left_ns = network_leave(state, &state->server.out, now, bytes, &first_ns);
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
