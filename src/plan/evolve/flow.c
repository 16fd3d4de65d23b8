/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/flow.h"

#include <tarry/error.h>

#include "base/memory.h"

int flow_init(flow *network, uint32_t nodes, uint32_t arcs, const tarry_allocator *allocator)
{
    flow made = {.nodes = nodes, .most_arcs = 2 * arcs};
    made.arc = memory_allocate(allocator, made.most_arcs, sizeof(*made.arc));
    made.first = memory_allocate(allocator, nodes, sizeof(*made.first));
    made.current = memory_allocate(allocator, nodes, sizeof(*made.current));
    made.level = memory_allocate(allocator, nodes, sizeof(*made.level));
    made.stack = memory_allocate(allocator, nodes, sizeof(*made.stack));
    if (made.arc == NULL || made.first == NULL || made.current == NULL || made.level == NULL ||
        made.stack == NULL) {
        flow_destroy(&made, allocator);
        return TARRY_ERROR_NO_MEMORY;
    }
    for (uint32_t node = 0; node < nodes; node++)
        made.first[node] = FLOW_NONE;
    *network = made;
    return TARRY_OK;
}

void flow_destroy(flow *network, const tarry_allocator *allocator)
{
    memory_release(allocator, network->stack);
    memory_release(allocator, network->level);
    memory_release(allocator, network->current);
    memory_release(allocator, network->first);
    memory_release(allocator, network->arc);
}

static void link_arc(flow *network, uint32_t from, uint32_t to)
{
    uint32_t index = network->arcs++;
    network->arc[index] = (flow_arc){.to = to, .next = network->first[from]};
    network->first[from] = index;
}

uint32_t flow_add(flow *network, uint32_t from, uint32_t to)
{
    uint32_t index = network->arcs;
    link_arc(network, from, to);
    link_arc(network, to, from);
    return index;
}

void flow_set(flow *network, uint32_t arc, uint64_t capacity)
{
    network->arc[arc].room = capacity;
    network->arc[arc ^ 1].room = 0;
}

/* Breadth first, as far as the sink; whether that is reached. Else the levels show the whole side
 * of a cut. */
static bool find_levels(flow *network, uint32_t source, uint32_t sink)
{
    for (uint32_t node = 0; node < network->nodes; node++) {
        network->level[node] = FLOW_NONE;
        network->current[node] = network->first[node];
    }
    uint32_t *queue = network->stack, head = 0, tail = 0;
    network->level[source] = 0;
    queue[tail++] = source;
    while (head < tail && network->level[sink] == FLOW_NONE) {
        uint32_t node = queue[head++];
        for (uint32_t a = network->first[node]; a != FLOW_NONE; a = network->arc[a].next) {
            uint32_t to = network->arc[a].to;
            if (network->arc[a].room == 0 || network->level[to] != FLOW_NONE)
                continue;
            network->level[to] = network->level[node] + 1;
            queue[tail++] = to;
        }
    }
    return network->level[sink] != FLOW_NONE;
}

/* Fills the way in network->stack[0..length-1] as far as it goes. Gives back the place of the first
 * arc that is now full; what flowed is added to *total. */
static uint32_t fill_way(flow *network, uint32_t length, uint64_t *total)
{
    uint64_t room = UINT64_MAX;
    for (uint32_t i = 0; i < length; i++)
        if (network->arc[network->stack[i]].room < room)
            room = network->arc[network->stack[i]].room;
    uint32_t full = length;
    for (uint32_t i = length; i-- > 0;) {
        uint32_t a = network->stack[i];
        network->arc[a].room -= room;
        network->arc[a ^ 1].room += room;
        if (network->arc[a].room == 0)
            full = i;
    }
    *total += room;
    return full;
}

/* Depth first along rising levels, until no way is left. */
static uint64_t fill_levels(flow *network, uint32_t source, uint32_t sink)
{
    uint64_t total = 0;
    uint32_t length = 0, node = source;
    for (;;) {
        if (node == sink) {
            length = fill_way(network, length, &total);
            node = network->arc[network->stack[length] ^ 1].to;
        }
        uint32_t *a = &network->current[node];
        while (*a != FLOW_NONE && (network->arc[*a].room == 0 ||
                                   network->level[network->arc[*a].to] != network->level[node] + 1))
            *a = network->arc[*a].next;
        if (*a != FLOW_NONE) {
            network->stack[length++] = *a;
            node = network->arc[*a].to;
        } else if (length > 0) { /* a dead end: back, and past the arc that led here */
            node = network->arc[network->stack[--length] ^ 1].to;
            network->current[node] = network->arc[network->current[node]].next;
        } else {
            return total;
        }
    }
}

uint64_t flow_run(flow *network, uint32_t source, uint32_t sink)
{
    uint64_t total = 0;
    while (find_levels(network, source, sink))
        total += fill_levels(network, source, sink);
    return total;
}
