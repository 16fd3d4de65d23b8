/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tarry/event.h>

#include "runtime/tcp/mesh/mesh_pace.h"

enum { BEGIN = 1000, LIMIT = 50 };

static void it_stands_when_the_limit_is_found_over_twice(void **state)
{
    (void)state;
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
static void what_moves_between_two_looks_counts(void **state)
{
    (void)state;
    mesh_pace pace = {.limit_ns = LIMIT};
    mesh_pace_moves(&pace, BEGIN);
    uint64_t now = BEGIN + 100 * LIMIT;
    assert_false(mesh_pace_stands(&pace, now));
    mesh_pace_moves(&pace, now);
    assert_false(mesh_pace_stands(&pace, now + MESH_PACE_AGAIN_NS - 1));
    assert_int_equal(mesh_pace_due_ns(&pace), now + MESH_PACE_AGAIN_NS - 1 + MESH_PACE_AGAIN_NS);
}

static void a_limit_that_does_not_come_is_never_over(void **state)
{
    (void)state;
    mesh_pace pace = {.limit_ns = TARRY_NEVER - 1};
    mesh_pace_moves(&pace, BEGIN);
    assert_true(mesh_pace_due_ns(&pace) == TARRY_NEVER);
    assert_false(mesh_pace_stands(&pace, TARRY_NEVER - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stands_when_the_limit_is_found_over_twice),
        cmocka_unit_test(what_moves_between_two_looks_counts),
        cmocka_unit_test(a_limit_that_does_not_come_is_never_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
