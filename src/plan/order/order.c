/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order/order.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/memory.h"
#include "base/random.h"
#include "plan/plan.h"

/*
 * The colouring works on a regular multigraph that is made from the assignment. Its left vertices
 * are workers, or several workers whose loads together do not exceed the largest load D; its right
 * vertices are runs of D copies in the sequence of the chunks, so that a chunk of D copies is one
 * vertex. Edges of no meaning fill all degrees up to D. A worker's copies then have different
 * colours, and so have the copies of a run.
 */

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

/* ---- colouring ---- */

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

/*
 * At every vertex the edges are paired up. As an edge has a partner at either end, the pairs join
 * the edges into closed walks, which alternate between left and right vertices and are therefore of
 * even length. Taking every other edge of a walk takes one of each pair, so half of each vertex.
 */

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

/* ---- matching ---- */

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

/* ---- q ---- */

/* The reach of an entry as it is, or as it would be in the first position. */
static uint32_t reach_or_load(const tarry_plan *plan, uint32_t entry, bool first)
{
    return reach_of(plan, entry) + (first ? plan->holder_position[entry] : 0);
}

/* How many reaches of the chunk are at most `limit`. */
static uint32_t count_up_to(const tarry_plan *plan, uint32_t chunk, bool first, uint32_t limit)
{
    uint32_t count = 0;
    uint32_t end = plan->chunk_offset[chunk + 1];
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < end; entry++)
        count += reach_or_load(plan, entry, first) <= limit;
    return count;
}

/* By bisection on the k-th least reach: no memory is needed. */
static slack select_least(const tarry_plan *plan, uint32_t chunk, uint32_t copies, bool first)
{
    uint32_t begin = plan->chunk_offset[chunk];
    uint32_t end = plan->chunk_offset[chunk + 1];
    assert(copies >= 1 && copies <= end - begin);
    uint32_t least = end - begin - copies + 1;
    uint32_t low = 1;
    uint32_t high = plan->max_load;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (count_up_to(plan, chunk, first, middle) >= least)
            high = middle;
        else
            low = middle + 1;
    }

    slack result = {.largest = high, .next = UINT32_MAX};
    uint32_t below = 0;
    uint32_t equal = 0;
    for (uint32_t entry = begin; entry < end; entry++) {
        uint32_t reach = reach_or_load(plan, entry, first);
        if (reach < high) {
            result.sum += reach;
            below++;
        } else if (reach == high) {
            equal++;
        } else if (reach < result.next) {
            result.next = reach;
        }
    }
    result.sum += (uint64_t)(least - below) * high;
    if (below + equal > least)
        result.next = high;
    return result;
}

/* The slack of `chunk`. copies (l): 1 to the chunk's replication. */
static slack slack_of(const tarry_plan *plan, uint32_t chunk, uint32_t copies)
{
    return select_least(plan, chunk, copies, false);
}

/* The slack that `chunk` would have if it were the first of every holder:
 * no order gives it more. */
static uint64_t slack_ceiling(const tarry_plan *plan, uint32_t chunk, uint32_t copies)
{
    return select_least(plan, chunk, copies, true).sum;
}

uint64_t slack_least(const tarry_plan *plan, uint32_t copies)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint64_t sum = slack_of(plan, chunk, copies).sum;
        if (sum < least)
            least = sum;
    }
    return least;
}

uint64_t tarry_plan_q(const tarry_plan *plan, uint32_t copies)
{
    return 1 + plan_edges(plan) - slack_least(plan, copies);
}

/*
 * A chunk whose slack is below the bound changes places with one that stands earlier in the order
 * of one of its holders, if the lesser slack of the two then exceeds its own (a lift). Where the
 * least chunks can no more be lifted, the want is passed on: the chunk is raised by an exchange
 * that leaves the other one with just the slack that it had itself, then that one is looked at, and
 * so on by chance, until one can be lifted. No exchange leaves more chunks at or below the least
 * slack than there were, so that it never falls.
 */

/* Exchanges that are looked at, at most: a quarter of a second. */
#define MAX_WORK UINT64_C(100000000)
enum { MAX_STEPS = 500 /* over which a want is passed on */ };

typedef struct improvement {
    tarry_plan *plan;
    uint64_t target; /* no chunk needs more slack */
    slack *slacks;   /* chunks */
    uint64_t work;   /* exchanges looked at */
    random_stream stream;
} improvement;

/* Two slots of the same worker, whose slots begin at `begin`, change places. */
typedef struct exchange {
    uint32_t begin;
    uint32_t late, early;
    uint64_t level; /* the lesser slack of the two chunks after it */
} exchange;

/* The slack after one of the reaches has grown from `before` to `after`. */
static uint64_t raised(const slack *old, uint32_t before, uint32_t after)
{
    if (before > old->largest)
        return old->sum;
    return old->sum - before + (after < old->next ? after : old->next);
}

/* The slack after one of the reaches has shrunk from `before` to `after`. */
static uint64_t lowered(const slack *old, uint32_t before, uint32_t after)
{
    uint32_t leaves = before <= old->largest ? before : old->largest;
    return after < leaves ? old->sum - leaves + after : old->sum;
}

static void carry_out(improvement *task, const exchange *pair)
{
    tarry_plan *plan = task->plan;
    const uint32_t slots[2] = {pair->late, pair->early};
    const uint32_t chunk[2] = {plan->slot_chunk[pair->late], plan->slot_chunk[pair->early]};
    const uint32_t holder[2] = {plan->slot_holder[pair->late], plan->slot_holder[pair->early]};
    for (int i = 0; i < 2; i++) {
        uint32_t slot = slots[1 - i];
        plan->slot_chunk[slot] = chunk[i];
        plan->slot_holder[slot] = holder[i];
        plan->holder_position[plan->chunk_offset[chunk[i]] + holder[i]] = slot - pair->begin;
    }
    for (int i = 0; i < 2; i++)
        task->slacks[chunk[i]] = slack_of(plan, chunk[i], plan->parts);
}

static uint64_t least_slack(const improvement *task)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < task->plan->chunks; chunk++)
        if (task->slacks[chunk].sum < least)
            least = task->slacks[chunk].sum;
    return least;
}

/* What the exchanges that raise a chunk above `floor` have to offer. Passes are looked for on
 * demand only: they take a random number each. */
typedef struct offer {
    exchange lift;   /* to the highest level above floor; its level is floor if there is none */
    exchange pass;   /* one by chance of those that leave the other chunk at floor */
    uint32_t passes; /* how many there are */
} offer;

static offer look_around(improvement *task, uint32_t chunk, uint64_t floor, bool passing)
{
    const tarry_plan *plan = task->plan;
    const slack *own = &task->slacks[chunk];
    offer found = {.lift.level = floor};
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
         entry++) {
        uint32_t begin = plan->worker_offset[plan->holder_worker[entry]];
        uint32_t end = plan->worker_offset[plan->holder_worker[entry] + 1];
        uint32_t late = begin + plan->holder_position[entry];
        task->work += late - begin;
        for (uint32_t early = begin; early < late; early++) {
            const slack *other = &task->slacks[plan->slot_chunk[early]];
            uint64_t gained = raised(own, end - late, end - early);
            uint64_t left = lowered(other, end - early, end - late);
            uint64_t level = gained < left ? gained : left;
            const exchange pair = {.begin = begin, .late = late, .early = early, .level = level};
            if (level > found.lift.level)
                found.lift = pair;
            else if (passing && gained > floor && left == floor &&
                     random_below(&task->stream, ++found.passes) == 0)
                found.pass = pair;
        }
    }
    return found;
}

/* Raises `chunk` above its slack by a lift, or by passing its want on over `steps` chunks at most
 * to one that can be lifted; gives back whether that went well. */
static bool satisfy(improvement *task, uint32_t chunk, uint32_t steps)
{
    uint64_t floor = task->slacks[chunk].sum;
    for (uint32_t step = 0; task->work < MAX_WORK; step++) {
        offer found = look_around(task, chunk, floor, step < steps);
        if (found.lift.level > floor) {
            carry_out(task, &found.lift);
            return true;
        }
        if (found.passes == 0)
            return false;
        chunk = task->plan->slot_chunk[found.pass.early];
        carry_out(task, &found.pass);
    }
    return false;
}

/* Tries to satisfy every chunk of slack up to `highest`; gives back whether any could be. */
static bool pass_over(improvement *task, uint64_t highest, uint32_t steps)
{
    bool changed = false;
    for (uint32_t chunk = 0; chunk < task->plan->chunks; chunk++)
        if (task->slacks[chunk].sum <= highest)
            changed |= satisfy(task, chunk, steps);
    return changed;
}

int improve_order(tarry_plan *plan, uint64_t seed)
{
    improvement task = {
        .plan = plan,
        .target = slack_bound(plan, plan->parts),
        .stream = random_stream_make(seed, RANDOM_ORDER, 0, 1),
    };
    task.slacks = memory_allocate(&plan->allocator, plan->chunks, sizeof(*task.slacks));
    if (task.slacks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        task.slacks[chunk] = slack_of(plan, chunk, plan->parts);

    bool changed = true;
    while (changed && task.work < MAX_WORK) {
        while (task.work < MAX_WORK && pass_over(&task, task.target - 1, 0))
            ;
        uint64_t least = least_slack(&task);
        changed = least < task.target && pass_over(&task, least, MAX_STEPS);
    }
    memory_release(&plan->allocator, task.slacks);
    return TARRY_OK;
}

/*
 * The bound on the least slack (docs/plan.md, "The lower bound").
 *
 * Let f be a nondecreasing, concave price of a reach, and T a set of chunks. Worker j's reaches are
 * 1..delta_j in any order, so the n_j chunks of T that it holds have at most the prices of its n_j
 * largest reaches: all copies of T together are worth at most a sum that no order changes. But a
 * chunk whose slack is s or more has copies worth at least some cost(s). So the least slack is at
 * most the largest s for which the costs of T do not exceed that sum. Any f and T give a true
 * bound; the least of many is taken.
 */

enum {
    MAX_THRESHOLD = 65536, /* keeps all sums below 2^63 */
    MAX_PRICES = 2 * 96,   /* enough for thresholds up to that, each by 1/8 larger than the last */
    MAX_SETS = 8,
    MAX_VISITS = 1 << 28, /* of holders, to see which chunks belong to a set */
    DEAR = 100000,        /* as many evaluations of a price per step of a bisection are */
};

/*
 * The price of reach w, with x = min(w, threshold): x, or, `curved`, the sum of the x largest of
 * 1..threshold.
 */
typedef struct price {
    bool curved;
    uint64_t threshold;
    uint64_t available; /* what the copies of the set of chunks are worth at most */
} price;

static uint64_t price_of(const price *f, uint64_t reach)
{
    uint64_t x = reach < f->threshold ? reach : f->threshold;
    return f->curved ? x * f->threshold - x * (x - 1) / 2 : x;
}

/* The prices of the reaches 1..reach together. */
static uint64_t price_sum(const price *f, uint64_t reach)
{
    uint64_t x = reach < f->threshold ? reach : f->threshold;
    uint64_t beyond = (reach - x) * price_of(f, x);
    if (x == 0)
        return 0;
    uint64_t triangle = x * (x + 1) / 2;
    return beyond + (f->curved ? f->threshold * triangle - (x - 1) * x * (x + 1) / 6 : triangle);
}

/*
 * The least that `count` reaches of 1..max_reach can be worth if the `least` smallest of them sum
 * to `sum` or more; UINT64_MAX if they can't. With the largest of the smallest given, concavity
 * puts all but one of them at 1 or at that largest.
 */
static uint64_t least_cost(const price *f, uint64_t count, uint64_t least, uint64_t sum,
                           uint64_t max_reach)
{
    if (sum <= least)
        return count * price_of(f, 1);
    uint64_t best = UINT64_MAX;
    for (uint64_t largest = (sum + least - 1) / least; largest <= max_reach; largest++) {
        uint64_t full = (sum - least) / (largest - 1);
        uint64_t rest = (sum - least) % (largest - 1);
        uint64_t cost = (count - least + full) * price_of(f, largest);
        if (full < least)
            cost += price_of(f, 1 + rest) + (least - full - 1) * price_of(f, 1);
        if (cost < best)
            best = cost;
    }
    return best;
}

/* The chunks of replication up to `replication` whose holders have loads up to `load`. The latter
 * is below max_load only where all replications are equal: there are then `chunks` of them. */
typedef struct chunk_set {
    uint32_t replication;
    uint32_t load;
    uint32_t chunks;
} chunk_set;

static bool belongs(const tarry_plan *plan, const chunk_set *set, uint32_t chunk)
{
    uint32_t begin = plan->chunk_offset[chunk];
    uint32_t end = plan->chunk_offset[chunk + 1];
    if (end - begin > set->replication)
        return false;
    if (set->load < plan->max_load)
        for (uint32_t entry = begin; entry < end; entry++)
            if (tarry_plan_load(plan, plan->holder_worker[entry]) > set->load)
                return false;
    return true;
}

/* Whether the chunks of the set can all have the slack `sum` as far as f says. */
static bool affordable(const tarry_plan *plan, const price *f, const chunk_set *set,
                       uint32_t copies, uint64_t sum)
{
    uint64_t total = 0;
    for (uint32_t r = plan->min_replication; r <= set->replication; r++) {
        uint64_t chunks = set->load < plan->max_load ? set->chunks : plan->replication_count[r];
        if (chunks == 0)
            continue;
        uint64_t cost = least_cost(f, r, r - copies + 1, sum, set->load);
        if (cost > (f->available - total) / chunks)
            return false;
        total += chunks * cost;
    }
    return true;
}

/* Sets ->available of each price for the chunks of the set. */
static void count_available(const tarry_plan *plan, const chunk_set *set, price *prices,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        prices[i].available = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t begin = plan->worker_offset[worker];
        uint32_t end = plan->worker_offset[worker + 1];
        uint32_t others = 0;
        for (uint32_t slot = begin; slot < end; slot++)
            others += !belongs(plan, set, plan->slot_chunk[slot]);
        for (uint32_t i = 0; i < count; i++)
            prices[i].available +=
                price_sum(&prices[i], end - begin) - price_sum(&prices[i], others);
    }
}

/* Lowers *bound to what the set allows. */
static void bound_by_set(const tarry_plan *plan, const chunk_set *set, uint32_t copies,
                         price *prices, uint32_t count, uint64_t *bound)
{
    count_available(plan, set, prices, count);
    for (uint32_t i = 0; i < count; i++) {
        if (affordable(plan, &prices[i], set, copies, *bound))
            continue;
        uint64_t possible = 0;
        uint64_t impossible = *bound;
        while (impossible - possible > 1) {
            uint64_t middle = possible + (impossible - possible) / 2;
            if (affordable(plan, &prices[i], set, copies, middle))
                possible = middle;
            else
                impossible = middle;
        }
        *bound = possible;
    }
}

/* The least load above `load`, or UINT32_MAX. */
static uint32_t next_load(const tarry_plan *plan, uint32_t load)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t present = tarry_plan_load(plan, worker);
        if (present > load && present < next)
            next = present;
    }
    return next;
}

/* Steps to the next set of chunks: of few copies where replications differ, else on workers of
 * small load. The first one, of replication 0 and load 0, is empty. Gives back false at the end. */
static bool next_set(const tarry_plan *plan, chunk_set *set)
{
    if (plan->min_replication < plan->max_replication) {
        set->load = plan->max_load;
        do
            set->replication++;
        while (plan->replication_count[set->replication] == 0);
        return set->replication < plan->max_replication;
    }
    if ((uint64_t)plan_edges(plan) * plan->max_replication > MAX_VISITS)
        return false;
    set->replication = plan->max_replication;
    set->load = next_load(plan, set->load);
    if (set->load >= plan->max_load)
        return false;
    set->chunks = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        set->chunks += belongs(plan, set, chunk);
    return true;
}

/* Spreads thresholds over the reaches, fewer where an evaluation is dear;
 * gives back how many prices there are. */
static uint32_t choose_prices(const tarry_plan *plan, price *prices)
{
    uint64_t classes = 0;
    for (uint32_t r = plan->min_replication; r <= plan->max_replication; r++)
        classes += plan->replication_count[r] > 0;
    uint64_t density = classes * plan->max_load <= DEAR ? 8 : 1;
    uint64_t top = plan->max_load < MAX_THRESHOLD ? plan->max_load : MAX_THRESHOLD;
    uint64_t threshold = 0;
    uint32_t count = 0;
    do {
        threshold += 1 + threshold / density;
        if (threshold > top)
            threshold = top;
        prices[count++] = (price){.threshold = threshold};
        prices[count++] = (price){.curved = true, .threshold = threshold};
    } while (threshold < top);
    return count;
}

uint64_t slack_bound(const tarry_plan *plan, uint32_t copies)
{
    uint64_t bound = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint64_t ceiling = slack_ceiling(plan, chunk, copies);
        if (ceiling < bound)
            bound = ceiling;
    }
    price prices[MAX_PRICES];
    uint32_t count = choose_prices(plan, prices);
    const chunk_set all = {.replication = plan->max_replication, .load = plan->max_load};
    bound_by_set(plan, &all, copies, prices, count, &bound);
    chunk_set set = {0};
    for (int sets = 0; sets < MAX_SETS && next_set(plan, &set); sets++)
        bound_by_set(plan, &set, copies, prices, count, &bound);
    return bound;
}

uint64_t tarry_plan_q_bound(const tarry_plan *plan, uint32_t copies)
{
    return 1 + plan_edges(plan) - slack_bound(plan, copies);
}
