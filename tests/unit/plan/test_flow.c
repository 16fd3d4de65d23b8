/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_allocator.h"
#include "plan/evolve/evolve.h"
#include "seed.h"
#include "test.h"

enum { MOST_NODES = 12 };

/* Rooms as a dense matrix; ways one by one, depth first: Ford and Fulkerson. */
typedef struct dense {
    uint32_t nodes;
    uint64_t room[MOST_NODES][MOST_NODES];
    bool seen[MOST_NODES];
} dense;

static uint64_t push(dense *network, uint32_t node, uint32_t sink, uint64_t most)
{
    if (node == sink)
        return most;
    network->seen[node] = true;
    for (uint32_t to = 0; to < network->nodes; to++) {
        uint64_t room = network->room[node][to];
        if (network->seen[to] || room == 0)
            continue;
        uint64_t pushed = push(network, to, sink, room < most ? room : most);
        if (pushed > 0) {
            network->room[node][to] -= pushed;
            network->room[to][node] += pushed;
            return pushed;
        }
    }
    return 0;
}

static uint64_t naive_flow(dense *network, uint32_t source, uint32_t sink)
{
    uint64_t total = 0, pushed;
    do {
        memset(network->seen, 0, sizeof(network->seen));
        pushed = push(network, source, sink, UINT64_MAX);
        total += pushed;
    } while (pushed > 0);
    return total;
}

/* The flow on the arcs leaves each inner node as it came, and its cut is full. */
static void assert_flow(const flow *network, const uint64_t *capacity, uint64_t total,
                        uint32_t source, uint32_t sink)
{
    int64_t excess[MOST_NODES] = {0};
    uint64_t cut = 0;
    for (uint32_t a = 0; a < network->arcs; a += 2) {
        uint32_t to = network->arc[a].to, from = network->arc[a + 1].to;
        assert_true(flow_on(network, a) <= capacity[a / 2]);
        excess[to] += (int64_t)flow_on(network, a);
        excess[from] -= (int64_t)flow_on(network, a);
        if (flow_reached(network, from) && !flow_reached(network, to))
            cut += capacity[a / 2];
    }
    for (uint32_t node = 0; node < network->nodes; node++)
        if (node != source && node != sink)
            assert_int_equal(excess[node], 0);
    assert_true(excess[sink] == (int64_t)total && excess[source] == -(int64_t)total);
    assert_true(flow_reached(network, source) && !flow_reached(network, sink));
    assert_true(cut == total);
}

TEST(random_networks_carry_what_a_slow_search_finds)
{
    random_stream stream = random_stream_make(test_seed("flow", 31), RANDOM_TEST, 0, 0);
    uint64_t some = 0;
    for (int trial = 0; trial < 3000; trial++) {
        dense slow = {.nodes = 2 + random_below(&stream, MOST_NODES - 1)};
        uint32_t arcs = random_below(&stream, 4 * slow.nodes);
        uint64_t capacity[4 * MOST_NODES];
        flow fast;
        assert_int_equal(flow_init(&fast, slow.nodes, arcs, NULL), 0);
        for (uint32_t i = 0; i < arcs; i++) {
            uint32_t from = random_below(&stream, slow.nodes);
            uint32_t to = random_below(&stream, slow.nodes);
            capacity[i] = random_below(&stream, trial % 2 ? 3 : 1000);
            slow.room[from][to] += from == to ? 0 : capacity[i];
            flow_set(&fast, flow_add(&fast, from, to), capacity[i]);
        }
        uint32_t source = random_below(&stream, slow.nodes);
        uint32_t sink = (source + 1 + random_below(&stream, slow.nodes - 1)) % slow.nodes;
        uint64_t expected = naive_flow(&slow, source, sink);
        assert_true(flow_run(&fast, source, sink) == expected);
        assert_flow(&fast, capacity, expected, source, sink);
        for (uint32_t i = 0; i < arcs; i++) /* once more from the start */
            flow_set(&fast, 2 * i, capacity[i]);
        assert_true(flow_run(&fast, source, sink) == expected);
        some += expected > 0;
        flow_destroy(&fast, NULL);
    }
    assert_true(some > 1000);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    flow network;
    int error = flow_init(&network, 3, 2, allocator);
    if (error == 0)
        flow_destroy(&network, allocator);
    return error;
}

TEST(each_allocation_may_fail)
{
    assert_int_equal(fail_each_allocation(attempt, NULL), 5);
}
