/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The colouring works on a regular multigraph that is made from the assignment. Its left vertices
 * are workers, or several workers whose loads together do not exceed the largest load D; its right
 * vertices are runs of D copies in the sequence of the chunks, so that a chunk of D copies is one
 * vertex. Edges of no meaning fill all degrees up to D. A worker's copies then have different
 * colours, and so have the copies of a run.
 */
#include "plan/order/order.h"

#include "base/memory.h"
#include "base/random.h"
#include "plan/order/colouring.h"

typedef struct padded {
    uint32_t vertices;
    uint32_t degree;  /* D */
    uint32_t *group;  /* workers: the left vertex that the worker belongs to */
    uint32_t *cursor; /* chunks: how many copies stand before the chunk's next one */
    uint32_t *left;   /* vertices * degree; the first of these edges are the plan's slots */
    uint32_t *right;  /* vertices * degree */
    uint32_t *colour; /* vertices * degree */
} padded;

static uint32_t load_of(const tarry_plan *plan, uint32_t worker)
{
    return plan->worker_offset[worker + 1] - plan->worker_offset[worker];
}

/* Puts neighbouring workers into a group as long as their loads fit. Two successive groups have
 * more than D copies together, so that all edges are fewer than twice the copies, plus D. */
static void group_workers(const tarry_plan *plan, padded *graph)
{
    uint32_t room = graph->degree;
    graph->vertices = 1;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t load = load_of(plan, worker);
        if (load > room) {
            graph->vertices++;
            room = graph->degree;
        }
        room -= load;
        graph->group[worker] = graph->vertices - 1;
    }
}

/* Sets left and right of the slots. */
static void join_copies(const tarry_plan *plan, padded *graph)
{
    uint32_t edges = plan_edges(plan);
    for (uint32_t slot = 0; slot < edges; slot++)
        graph->cursor[plan->slot_chunk[slot]]++;
    uint32_t before = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t copies = graph->cursor[chunk];
        graph->cursor[chunk] = before;
        before += copies;
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t end = plan->worker_offset[worker + 1];
        for (uint32_t slot = plan->worker_offset[worker]; slot < end; slot++) {
            graph->left[slot] = graph->group[worker];
            graph->right[slot] = graph->cursor[plan->slot_chunk[slot]]++ / graph->degree;
        }
    }
}

/* Sets left and right of the edges without meaning. */
static void fill_up(const tarry_plan *plan, padded *graph)
{
    uint32_t edge = plan_edges(plan);
    uint32_t worker = 0;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        uint32_t degree = 0;
        for (; worker < plan->workers && graph->group[worker] == vertex; worker++)
            degree += load_of(plan, worker);
        for (; degree < graph->degree; degree++, edge++) {
            graph->left[edge] = vertex;
            graph->right[edge] = edge / graph->degree;
        }
    }
}

/* Sorts each worker's slots by colour: deals all slots to their workers, colour by colour. */
static int sort_slots(tarry_plan *plan, const uint32_t *colour, uint32_t colours)
{
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t edges = plan_edges(plan);
    uint32_t *first = memory_allocate(allocator, (size_t)colours + 1, sizeof(*first));
    uint32_t *next = memory_allocate(allocator, plan->workers, sizeof(*next));
    uint32_t *owner = memory_allocate(allocator, edges, sizeof(*owner));
    uint32_t *chunk = memory_allocate(allocator, edges, sizeof(*chunk));
    int error = TARRY_ERROR_NO_MEMORY;
    if (first == NULL || next == NULL || owner == NULL || chunk == NULL)
        goto release;

    for (uint32_t slot = 0; slot < edges; slot++)
        first[colour[slot] + 1]++;
    for (uint32_t c = 0; c < colours; c++)
        first[c + 1] += first[c];
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        next[worker] = plan->worker_offset[worker];
        for (uint32_t slot = next[worker]; slot < plan->worker_offset[worker + 1]; slot++) {
            uint32_t rank = first[colour[slot]]++;
            owner[rank] = worker;
            chunk[rank] = plan->slot_chunk[slot];
        }
    }
    for (uint32_t rank = 0; rank < edges; rank++)
        plan->slot_chunk[next[owner[rank]]++] = chunk[rank];
    error = TARRY_OK;

release:
    memory_release(allocator, chunk);
    memory_release(allocator, owner);
    memory_release(allocator, next);
    memory_release(allocator, first);
    return error;
}

static int sort_by_colour(tarry_plan *plan)
{
    const tarry_allocator *allocator = &plan->allocator;
    padded graph = {0};
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (load_of(plan, worker) > graph.degree)
            graph.degree = load_of(plan, worker);

    int error = TARRY_ERROR_NO_MEMORY;
    graph.group = memory_allocate(allocator, plan->workers, sizeof(*graph.group));
    graph.cursor = memory_allocate(allocator, plan->chunks, sizeof(*graph.cursor));
    if (graph.group == NULL || graph.cursor == NULL)
        goto release;
    group_workers(plan, &graph);
    uint32_t edges = graph.vertices * graph.degree;
    graph.left = memory_allocate(allocator, edges, sizeof(*graph.left));
    graph.right = memory_allocate(allocator, edges, sizeof(*graph.right));
    graph.colour = memory_allocate(allocator, edges, sizeof(*graph.colour));
    if (graph.left == NULL || graph.right == NULL || graph.colour == NULL)
        goto release;
    join_copies(plan, &graph);
    fill_up(plan, &graph);

    const multigraph regular = {
        .vertices = graph.vertices,
        .degree = graph.degree,
        .left = graph.left,
        .right = graph.right,
    };
    error = colour_edges(&regular, allocator, graph.colour);
    if (error == TARRY_OK)
        error = sort_slots(plan, graph.colour, graph.degree);

release:
    memory_release(allocator, graph.colour);
    memory_release(allocator, graph.right);
    memory_release(allocator, graph.left);
    memory_release(allocator, graph.cursor);
    memory_release(allocator, graph.group);
    return error;
}

static void shuffle_slots(tarry_plan *plan, uint64_t seed)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t begin = plan->worker_offset[worker];
        random_stream stream = random_stream_make(seed, RANDOM_ORDER, worker, 0);
        random_shuffle(&stream, plan->slot_chunk + begin, load_of(plan, worker));
    }
}

int order_arrange(tarry_plan *plan, tarry_order order, uint64_t seed)
{
    switch (order) {
    case TARRY_ORDER_OPTIMAL:
        return sort_by_colour(plan);
    case TARRY_ORDER_RANDOM:
        shuffle_slots(plan, seed);
        break;
    case TARRY_ORDER_AS_IS:
        break;
    }
    return TARRY_OK;
}
