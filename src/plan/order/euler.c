/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At every vertex the edges are paired up. As an edge has a partner at either end, the pairs join
 * the edges into closed walks, which alternate between left and right vertices and are therefore of
 * even length. Taking every other edge of a walk takes one of each pair, so half of each vertex.
 */
#include "plan/order/euler.h"

#include <assert.h>
#include <tarry/error.h>

#include "base/memory.h"

#define NONE UINT32_MAX

struct euler {
    const multigraph *graph;
    tarry_allocator allocator;
    uint32_t *unpaired[2]; /* by side and vertex: the edge that waits for a partner, or NONE */
    uint32_t *partner[2];  /* by side and index into `edge`: the index of the partner */
    uint32_t *half[2];     /* the edges of either half */
};

enum { LEFT, RIGHT };

int euler_create(const multigraph *graph, const tarry_allocator *allocator, euler **out)
{
    euler *state = memory_allocate(allocator, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->graph = graph;
    state->allocator = memory_allocator(allocator);
    size_t edges = (size_t)graph->vertices * graph->degree;
    for (int side = LEFT; side <= RIGHT; side++) {
        state->unpaired[side] = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
        state->partner[side] = memory_allocate(allocator, edges, sizeof(uint32_t));
        state->half[side] = memory_allocate(allocator, edges / 2, sizeof(uint32_t));
        if (state->unpaired[side] == NULL || state->partner[side] == NULL ||
            state->half[side] == NULL) {
            euler_free(state);
            return TARRY_ERROR_NO_MEMORY;
        }
    }
    *out = state;
    return TARRY_OK;
}

void euler_free(euler *state)
{
    if (state == NULL)
        return;
    const tarry_allocator allocator = state->allocator;
    for (int side = LEFT; side <= RIGHT; side++) {
        memory_release(&allocator, state->unpaired[side]);
        memory_release(&allocator, state->partner[side]);
        memory_release(&allocator, state->half[side]);
    }
    memory_release(&allocator, state);
}

static void pair_up(euler *state, int side, const uint32_t *end, const uint32_t *edge,
                    uint32_t count)
{
    uint32_t *unpaired = state->unpaired[side];
    uint32_t *partner = state->partner[side];
    for (uint32_t vertex = 0; vertex < state->graph->vertices; vertex++)
        unpaired[vertex] = NONE;
    for (uint32_t index = 0; index < count; index++) {
        uint32_t vertex = end[edge[index]];
        uint32_t other = unpaired[vertex];
        if (other == NONE) {
            unpaired[vertex] = index;
            continue;
        }
        partner[index] = other;
        partner[other] = index;
        unpaired[vertex] = NONE;
    }
}

void euler_split(euler *state, uint32_t *edge, uint32_t degree)
{
    assert(degree % 2 == 0);
    uint32_t count = state->graph->vertices * degree;
    pair_up(state, LEFT, state->graph->left, edge, count);
    pair_up(state, RIGHT, state->graph->right, edge, count);

    uint32_t taken = 0;
    for (uint32_t start = 0; start < count; start++) {
        uint32_t index = start;
        while (state->partner[LEFT][index] != NONE) {
            uint32_t other = state->partner[LEFT][index];
            state->half[0][taken] = edge[index];
            state->half[1][taken] = edge[other];
            taken++;
            state->partner[LEFT][index] = NONE;
            state->partner[LEFT][other] = NONE;
            index = state->partner[RIGHT][other];
        }
    }
    assert(taken == count / 2);
    for (uint32_t index = 0; index < taken; index++) {
        edge[index] = state->half[0][index];
        edge[taken + index] = state->half[1][index];
    }
}
