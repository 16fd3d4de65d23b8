/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "base/random.h"
#include "privacy/secure/secure_member.h"
#include "seed.h"
#include "test.h"

enum { MOST = 80 };

typedef struct graph {
    uint32_t members;
    bool edge[MOST][MOST];
} graph;

static void read_graph(uint32_t members, uint32_t colluders, graph *out)
{
    *out = (graph){.members = members};
    const uint32_t degree = mask_graph_degree(members, colluders);
    for (uint32_t i = 0; i < members; i++) {
        uint32_t neighbours[MOST];
        mask_graph_neighbours(members, colluders, i, neighbours);
        for (uint32_t k = 0; k < degree; k++) {
            assert_true(neighbours[k] < members);
            assert_true(neighbours[k] != i);
            assert_true(k == 0 || neighbours[k - 1] < neighbours[k]);
            out->edge[i][neighbours[k]] = true;
        }
    }
    for (uint32_t i = 0; i < members; i++)
        for (uint32_t k = 0; k < members; k++)
            assert_int_equal(out->edge[i][k], out->edge[k][i]);
}

static bool is_connected(const graph *of, const bool *gone)
{
    bool seen[MOST] = {false};
    uint32_t stack[MOST], height = 0, left = 0, reached = 0;
    for (uint32_t i = 0; i < of->members; i++) {
        left += !gone[i];
        if (!gone[i] && height == 0 && reached == 0) {
            stack[height++] = i;
            seen[i] = true;
            reached = 1;
        }
    }
    while (height > 0) {
        const uint32_t at = stack[--height];
        for (uint32_t k = 0; k < of->members; k++) {
            if (of->edge[at][k] && !gone[k] && !seen[k]) {
                seen[k] = true;
                reached++;
                stack[height++] = k;
            }
        }
    }
    return reached == left;
}

TEST(small_groups_are_complete)
{
    for (uint32_t members = 1; members <= MASK_GRAPH_COMPLETE; members++) {
        graph of;
        read_graph(members, members % 5, &of);
        assert_int_equal(mask_graph_degree(members, members % 5), members - 1);
    }
    assert_int_equal(mask_graph_degree(34, 0), 32);
    assert_int_equal(mask_graph_degree(200, 31), 32);
    assert_int_equal(mask_graph_degree(200, 32), 34);
    assert_int_equal(mask_graph_degree(35, 33), 34);
    assert_int_equal(mask_graph_degree(10, 1000000), 9);
    assert_int_equal(mask_graph_degree(1000000, UINT32_MAX), 999999);
}

/* Runs of members taken out are what breaks a circle: all pairs of runs, and random sets. */
TEST(without_any_colluders_the_others_stay_connected)
{
    random_stream stream = random_stream_make(test_seed("mask graph", 1), RANDOM_TEST, 0, 0);
    const uint32_t cases[][2] = {{34, 1}, {40, 3}, {64, 31}, {64, 32}, {70, 33}, {80, 40}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        const uint32_t members = cases[c][0], colluders = cases[c][1];
        graph of;
        read_graph(members, colluders, &of);
        for (uint32_t first = 0; first <= colluders; first++) {
            for (uint32_t begin = 0; begin < members; begin++) {
                bool gone[MOST] = {false};
                for (uint32_t i = 0; i < first; i++)
                    gone[i] = true;
                for (uint32_t i = 0; i < colluders - first; i++)
                    gone[(begin + i) % members] = true;
                assert_true(is_connected(&of, gone));
            }
        }
        for (uint32_t draw = 0; draw < 500; draw++) {
            bool gone[MOST] = {false};
            for (uint32_t i = 0; i < colluders; i++)
                gone[random_below(&stream, members)] = true;
            assert_true(is_connected(&of, gone));
        }
    }
}

/* All sets of colluders, as many as the degree allows, by brute force over what breaks first: the
 * graph falls apart without all neighbours of one member, so the test of connection can fail. */
TEST(without_all_its_neighbours_a_member_is_alone)
{
    graph of;
    read_graph(64, 1, &of);
    bool gone[MOST] = {false};
    for (uint32_t k = 0; k < 64; k++)
        gone[k] = of.edge[7][k];
    assert_false(is_connected(&of, gone));
}
