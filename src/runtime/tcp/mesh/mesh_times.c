/* SPDX-License-Identifier: Apache-2.0 */
/* What a sum tells of the connections that it was made over. */
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum { ASKED = 15 /* neighbours at most: each is a call of the system */ };

void mesh_times_begin(mesh_sum *sum)
{
    sum->begun_ns = clock_now_ns();
    sum->took_ns = sum->latency_ns = 0;
}

/* Of those neighbours that tell it, evenly spread. */
static uint64_t median_latency(const mesh_sum *sum)
{
    uint64_t found[ASKED];
    uint32_t count = 0, step = (sum->count + ASKED - 1) / ASKED;
    for (uint32_t i = sum->place % step; i < sum->count; i += step) {
        const mesh_member *member = sum->members[i];
        if (member == NULL || !mesh_is_neighbour(sum, i) || !mesh_is_linked(member))
            continue;
        uint64_t latency_ns = channel_latency_ns(member->link->channel);
        uint32_t at = count;
        if (latency_ns == 0)
            continue;
        for (; at > 0 && found[at - 1] > latency_ns; at--)
            found[at] = found[at - 1];
        found[at] = latency_ns;
        count++;
    }
    return count > 0 ? found[(count - 1) / 2] : 0;
}

void mesh_times_end(mesh_sum *sum)
{
    sum->took_ns = clock_now_ns() - sum->begun_ns;
    sum->latency_ns = median_latency(sum);
}
