/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order/colouring.h"

#include <tarry/error.h>

#include "base/memory.h"
#include "plan/order/euler.h"
#include "plan/order/matching.h"

typedef struct painter {
    const multigraph *graph;
    euler *splits;
    matching *matchings;
    uint32_t *colour;
} painter;

/* Paints a perfect matching. */
static void paint(const painter *task, const uint32_t *edge, uint32_t colour)
{
    for (uint32_t index = 0; index < task->graph->vertices; index++)
        task->colour[edge[index]] = colour;
}

/* Paints edge[], among which every vertex has `degree`, with the colours from `colour` on. Calls
 * itself to the depth log2(degree) at most. */
static void paint_all(const painter *task, uint32_t *edge, uint32_t degree, uint32_t colour)
{
    if (degree > 1 && degree % 2 == 1) {
        matching_take(task->matchings, edge, degree);
        paint(task, edge, colour);
        edge += task->graph->vertices;
        degree--;
        colour++;
    }
    if (degree == 1) {
        paint(task, edge, colour);
    } else if (degree > 0) {
        euler_split(task->splits, edge, degree);
        paint_all(task, edge, degree / 2, colour);
        paint_all(task, edge + (size_t)task->graph->vertices * (degree / 2), degree / 2,
                  colour + degree / 2);
    }
}

int colour_edges(const multigraph *graph, const tarry_allocator *allocator, uint32_t *colour)
{
    painter task = {.graph = graph, .colour = colour};
    uint32_t edges = graph->vertices * graph->degree;
    uint32_t *edge = memory_allocate(allocator, edges, sizeof(*edge));
    int error = edge != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK)
        error = euler_create(graph, allocator, &task.splits);
    if (error == TARRY_OK)
        error = matching_create(graph, allocator, &task.matchings);
    if (error == TARRY_OK) {
        for (uint32_t index = 0; index < edges; index++)
            edge[index] = index;
        paint_all(&task, edge, graph->degree, 0);
    }
    matching_free(task.matchings);
    euler_free(task.splits);
    memory_release(allocator, edge);
    return error;
}
