/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order/matching.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"

#define NONE UINT32_MAX

struct matching {
    const multigraph *graph;
    tarry_allocator allocator;
    uint32_t degree;
    uint32_t *listed;      /* the edges by left vertex: those of u from u * degree on */
    uint32_t *left_match;  /* left vertex: its matched edge, or NONE */
    uint32_t *right_match; /* right vertex: its matched edge, or NONE */
    uint32_t *level;       /* left vertex: steps from an unmatched one; NONE if not reached */
    uint32_t *next;        /* left vertex: which of its edges to look at next */
    uint32_t *queue;       /* left vertices: of the breadth-first search, or the path in hand */
};

int matching_create(const multigraph *graph, const tarry_allocator *allocator, matching **out)
{
    matching *state = memory_allocate(allocator, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->graph = graph;
    state->allocator = memory_allocator(allocator);
    size_t edges = (size_t)graph->vertices * graph->degree;
    state->listed = memory_allocate(allocator, edges, sizeof(uint32_t));
    state->left_match = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
    state->right_match = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
    state->level = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
    state->next = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
    state->queue = memory_allocate(allocator, graph->vertices, sizeof(uint32_t));
    if (state->listed == NULL || state->left_match == NULL || state->right_match == NULL ||
        state->level == NULL || state->next == NULL || state->queue == NULL) {
        matching_free(state);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = state;
    return TARRY_OK;
}

void matching_free(matching *state)
{
    if (state == NULL)
        return;
    const tarry_allocator allocator = state->allocator;
    memory_release(&allocator, state->listed);
    memory_release(&allocator, state->left_match);
    memory_release(&allocator, state->right_match);
    memory_release(&allocator, state->level);
    memory_release(&allocator, state->next);
    memory_release(&allocator, state->queue);
    memory_release(&allocator, state);
}

static void match(matching *state, uint32_t edge)
{
    state->left_match[state->graph->left[edge]] = edge;
    state->right_match[state->graph->right[edge]] = edge;
}

/* Lists the edges by left vertex, and matches what can be matched at first sight. */
static uint32_t begin(matching *state, const uint32_t *edge, uint32_t degree)
{
    uint32_t vertices = state->graph->vertices;
    state->degree = degree;
    memset(state->next, 0, vertices * sizeof(*state->next));
    for (uint32_t vertex = 0; vertex < vertices; vertex++)
        state->left_match[vertex] = state->right_match[vertex] = NONE;
    uint32_t matched = 0;
    for (uint32_t index = 0; index < vertices * degree; index++) {
        uint32_t left = state->graph->left[edge[index]];
        uint32_t right = state->graph->right[edge[index]];
        state->listed[left * degree + state->next[left]++] = edge[index];
        if (state->left_match[left] == NONE && state->right_match[right] == NONE) {
            match(state, edge[index]);
            matched++;
        }
    }
    return matched;
}

/* Sets the levels, up to the first at which an unmatched right vertex can be reached. */
static void search_levels(matching *state)
{
    uint32_t tail = 0;
    for (uint32_t left = 0; left < state->graph->vertices; left++) {
        state->level[left] = NONE;
        if (state->left_match[left] == NONE) {
            state->level[left] = 0;
            state->queue[tail++] = left;
        }
    }
    uint32_t last = NONE;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t left = state->queue[head];
        if (state->level[left] >= last)
            break;
        for (uint32_t i = 0; i < state->degree; i++) {
            uint32_t edge = state->listed[left * state->degree + i];
            uint32_t beyond = state->right_match[state->graph->right[edge]];
            if (beyond == NONE) {
                last = state->level[left];
                continue;
            }
            uint32_t other = state->graph->left[beyond];
            if (state->level[other] == NONE) {
                state->level[other] = state->level[left] + 1;
                state->queue[tail++] = other;
            }
        }
    }
}

/* Looks for an augmenting path from an unmatched left vertex
 * along the levels, depth first, and follows it. */
static bool augment(matching *state, uint32_t start)
{
    uint32_t *path = state->queue;
    uint32_t length = 0;
    path[length++] = start;
    while (length > 0) {
        uint32_t left = path[length - 1];
        if (state->next[left] == state->degree) {
            length--;
            if (length > 0)
                state->next[path[length - 1]]++;
            continue;
        }
        uint32_t edge = state->listed[left * state->degree + state->next[left]];
        uint32_t beyond = state->right_match[state->graph->right[edge]];
        if (beyond == NONE) {
            for (uint32_t i = 0; i < length; i++)
                match(state, state->listed[path[i] * state->degree + state->next[path[i]]]);
            return true;
        }
        uint32_t other = state->graph->left[beyond];
        if (state->level[other] == state->level[left] + 1)
            path[length++] = other;
        else
            state->next[left]++;
    }
    return false;
}

void matching_take(matching *state, uint32_t *edge, uint32_t degree)
{
    uint32_t vertices = state->graph->vertices;
    uint32_t matched = begin(state, edge, degree);
    while (matched < vertices) {
        uint32_t before = matched;
        search_levels(state);
        memset(state->next, 0, vertices * sizeof(*state->next));
        for (uint32_t left = 0; left < vertices; left++)
            if (state->left_match[left] == NONE && augment(state, left))
                matched++;
        assert(matched > before); /* a regular bipartite graph has a perfect matching */
        (void)before;
    }
    uint32_t front = 0;
    for (uint32_t index = 0; front < vertices; index++) {
        uint32_t present = edge[index];
        if (state->left_match[state->graph->left[present]] != present)
            continue;
        edge[index] = edge[front];
        edge[front++] = present;
    }
}
