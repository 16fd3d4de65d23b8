/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_allocator.h"
#include "plan/order/order.h"
#include "seed.h"
#include "test.h"

enum { MAX_VERTICES = 40, MAX_DEGREE = 33, MAX_EDGES = MAX_VERTICES * MAX_DEGREE };

typedef struct sample {
    uint32_t left[MAX_EDGES], right[MAX_EDGES], edge[MAX_EDGES];
    multigraph graph;
} sample;

/* A sum of random matchings in random sequence: regular, with edges that join the same vertices. */
static void draw(sample *out, uint32_t vertices, uint32_t degree, random_stream *stream)
{
    uint32_t edges = vertices * degree;
    uint32_t partner[MAX_VERTICES];
    for (uint32_t edge = 0; edge < edges; edge++)
        out->edge[edge] = edge;
    random_shuffle(stream, out->edge, edges);
    for (uint32_t vertex = 0; vertex < vertices; vertex++)
        partner[vertex] = vertex;
    for (uint32_t index = 0; index < edges; index++) {
        if (index % vertices == 0)
            random_shuffle(stream, partner, vertices);
        out->left[out->edge[index]] = index % vertices;
        out->right[out->edge[index]] = partner[index % vertices];
    }
    for (uint32_t edge = 0; edge < edges; edge++)
        out->edge[edge] = edge;
    out->graph = (multigraph){
        .vertices = vertices, .degree = degree, .left = out->left, .right = out->right};
}

/* Among edge[0..count-1] every vertex has `degree`, and no edge is there twice. */
static void check_degrees(const sample *in, const uint32_t *edge, uint32_t count, uint32_t degree)
{
    uint32_t left[MAX_VERTICES] = {0}, right[MAX_VERTICES] = {0};
    uint32_t seen[MAX_EDGES] = {0};
    for (uint32_t index = 0; index < count; index++) {
        assert_int_equal(seen[edge[index]]++, 0);
        left[in->left[edge[index]]]++;
        right[in->right[edge[index]]]++;
    }
    for (uint32_t vertex = 0; vertex < in->graph.vertices; vertex++) {
        assert_int_equal(left[vertex], degree);
        assert_int_equal(right[vertex], degree);
    }
}

TEST(a_split_halves_every_degree)
{
    random_stream stream = random_stream_make(test_seed("split", 1), RANDOM_TEST, 0, 0);
    sample in;
    for (int trial = 0; trial < 200; trial++) {
        uint32_t vertices = 1 + random_below(&stream, MAX_VERTICES);
        uint32_t degree = 2 * (1 + random_below(&stream, MAX_DEGREE / 2));
        draw(&in, vertices, degree, &stream);
        euler *splits = NULL;
        assert_ok(euler_create(&in.graph, NULL, &splits));
        euler_split(splits, in.edge, degree);
        uint32_t half = vertices * (degree / 2);
        check_degrees(&in, in.edge, 2 * half, degree);
        check_degrees(&in, in.edge, half, degree / 2);
        check_degrees(&in, in.edge + half, half, degree / 2);
        euler_free(splits);
    }
}

TEST(a_matching_covers_every_vertex)
{
    random_stream stream = random_stream_make(test_seed("matching", 1), RANDOM_TEST, 1, 0);
    sample in;
    for (int trial = 0; trial < 300; trial++) {
        uint32_t vertices = 1 + random_below(&stream, MAX_VERTICES);
        uint32_t degree = 1 + random_below(&stream, trial % 2 == 0 ? 3 : MAX_DEGREE);
        draw(&in, vertices, degree, &stream);
        matching *matchings = NULL;
        assert_ok(matching_create(&in.graph, NULL, &matchings));
        uint32_t *edge = in.edge;
        for (uint32_t left = degree; left > 0; left--, edge += vertices) {
            matching_take(matchings, edge, left);
            check_degrees(&in, edge, vertices, 1);
        }
        check_degrees(&in, in.edge, vertices * degree, degree);
        matching_free(matchings);
    }
}

TEST(every_colour_is_a_perfect_matching)
{
    random_stream stream = random_stream_make(test_seed("colouring", 1), RANDOM_TEST, 2, 0);
    sample in;
    uint32_t colour[MAX_EDGES], members[MAX_EDGES];
    for (uint32_t degree = 1; degree <= MAX_DEGREE; degree++) {
        uint32_t vertices = 1 + random_below(&stream, MAX_VERTICES);
        draw(&in, vertices, degree, &stream);
        assert_ok(colour_edges(&in.graph, NULL, colour));
        for (uint32_t wanted = 0; wanted < degree; wanted++) {
            uint32_t count = 0;
            for (uint32_t edge = 0; edge < vertices * degree; edge++)
                if (colour[edge] == wanted)
                    members[count++] = edge;
            check_degrees(&in, members, count, 1);
        }
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const sample *in = user;
    uint32_t colour[MAX_EDGES];
    return colour_edges(&in->graph, allocator, colour);
}

TEST(each_allocation_may_fail)
{
    random_stream stream = random_stream_make(1, RANDOM_TEST, 3, 0);
    sample in;
    draw(&in, 5, 3, &stream);
    assert_true(fail_each_allocation(attempt, &in) > 10);
}
