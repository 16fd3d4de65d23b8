/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/ring.h"

#include <string.h>

#include "base/memory.h"

int ring_group_sum(network *state, const group_sum *sum, const uint64_t *ready_ns,
                   uint64_t *done_ns, uint64_t *moved)
{
    const uint32_t count = sum->count;
    uint64_t segment = (sum->dimension + count - 1) / count * sizeof(float);
    uint64_t *next = memory_allocate(&state->allocator, count, sizeof(*next));
    if (next == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(done_ns, ready_ns, count * sizeof(*next));
    for (uint32_t step = 0; step < 2 * (count - 1); step++) {
        for (uint32_t place = 0; place < count; place++) {
            uint32_t after = place + 1 < count ? place + 1 : 0;
            network_node *from = &state->workers[group_sum_member(sum, place)];
            network_node *to = &state->workers[group_sum_member(sum, after)];
            uint64_t first_ns,
                left_ns = network_leave(state, &from->out, done_ns[place], segment, &first_ns);
            uint64_t there_ns = network_arrive(state, &to->in, first_ns, segment, left_ns);
            /* One that is not ready adds to what came in when it is. */
            next[after] = network_later(there_ns, done_ns[after]);
        }
        memcpy(done_ns, next, count * sizeof(*next));
    }
    memory_release(&state->allocator, next);
    *moved = 2 * (uint64_t)(count - 1) * count * segment;
    return TARRY_OK;
}
