/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include <tarry/event.h>

#include "runtime/tcp/mesh/mesh.h"
#include "test.h"

enum { BEGIN = 1000, LIMIT = 50 };

TEST(it_stands_when_the_limit_is_found_over_twice)
{
    mesh_pace pace = {.limit_ns = LIMIT};
    mesh_pace_moves(&pace, BEGIN);
    assert_int_equal(mesh_pace_due_ns(&pace), BEGIN + LIMIT);
    assert_false(mesh_pace_stands(&pace, BEGIN + LIMIT - 1));
    assert_int_equal(mesh_pace_due_ns(&pace), BEGIN + LIMIT);
    assert_false(mesh_pace_stands(&pace, BEGIN + LIMIT));
    assert_int_equal(mesh_pace_due_ns(&pace), BEGIN + LIMIT + MESH_PACE_AGAIN_NS);
    assert_false(mesh_pace_stands(&pace, BEGIN + LIMIT + 1));
    assert_true(mesh_pace_stands(&pace, BEGIN + LIMIT + MESH_PACE_AGAIN_NS));
}

/* It was itself stopped for long, and what others sent meanwhile comes in. */
TEST(what_moves_between_two_looks_counts)
{
    mesh_pace pace = {.limit_ns = LIMIT};
    mesh_pace_moves(&pace, BEGIN);
    uint64_t now = BEGIN + 100 * LIMIT;
    assert_false(mesh_pace_stands(&pace, now));
    mesh_pace_moves(&pace, now);
    assert_false(mesh_pace_stands(&pace, now + MESH_PACE_AGAIN_NS - 1));
    assert_int_equal(mesh_pace_due_ns(&pace), now + MESH_PACE_AGAIN_NS - 1 + MESH_PACE_AGAIN_NS);
}

TEST(a_limit_that_does_not_come_is_never_over)
{
    mesh_pace pace = {.limit_ns = TARRY_NEVER - 1};
    mesh_pace_moves(&pace, BEGIN);
    assert_true(mesh_pace_due_ns(&pace) == TARRY_NEVER);
    assert_false(mesh_pace_stands(&pace, TARRY_NEVER - 1));
}
