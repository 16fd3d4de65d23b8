/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_matrix.h"

#define HEAD                                                                                       \
    "projective planes have q^2+q+1 workers, as many chunks and replication q+1 for a prime "      \
    "power q, not "

static tarry_plan *make(uint32_t order, uint32_t planes, tarry_order arrangement, uint32_t parts)
{
    uint32_t points = planes * (order * order + order + 1);
    tarry_plan_settings settings =
        plan_settings(points, points, order + 1, TARRY_DESIGN_PROJECTIVE, arrangement, 1);
    settings.parts = parts;
    return plan_make(&settings);
}

/* Two points of a plane lie on exactly one line, and two lines meet in exactly one point; nothing
 * joins two planes. */
static void check_axioms(uint32_t order, uint32_t planes)
{
    tarry_plan *plan = make(order, planes, TARRY_ORDER_AS_IS, 1);
    plan_check_views(plan);
    assert_int_equal(plan->max_load, order + 1);
    assert_int_equal(plan->min_replication, order + 1);
    assert_int_equal(plan->max_replication, order + 1);
    unsigned char *held = holder_matrix(plan);
    uint32_t points = order * order + order + 1;
    for (uint32_t a = 0; a < planes * points; a++) {
        for (uint32_t b = a + 1; b < planes * points; b++) {
            uint32_t expected = a / points == b / points;
            assert_int_equal(workers_shared(plan, held, a, b), expected);
            assert_int_equal(chunks_shared(plan, held, a, b), expected);
        }
    }
    free(held);
    tarry_plan_free(plan);
}

static void the_axioms_of_a_projective_plane_hold(void **state)
{
    (void)state;
    const uint32_t orders[] = {2, 3, 4, 5, 7, 8, 9, 11, 13};
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        check_axioms(orders[i], 1);
    check_axioms(2, 5);
    check_axioms(4, 3);
}

/* y = slope x + shift on the points x q + y, then the point at infinity; at last the line of those.
 */
static void fano_plane_is_listed_line_by_line(void **state)
{
    (void)state;
    const uint32_t lines[7][3] = {{0, 2, 4}, {1, 3, 4}, {0, 3, 5}, {1, 2, 5},
                                  {0, 1, 6}, {2, 3, 6}, {4, 5, 6}};
    tarry_plan *plan = make(2, 1, TARRY_ORDER_AS_IS, 1);
    for (uint32_t worker = 0; worker < 7; worker++)
        for (uint32_t position = 0; position < 3; position++)
            assert_int_equal(tarry_plan_chunk(plan, worker, position), lines[worker][position]);
    tarry_plan_free(plan);
}

/* Regular with N = m: the matching order reaches the known value for every number of copies. */
static void the_optimal_order_meets_its_formula(void **state)
{
    (void)state;
    const uint32_t sizes[][2] = {{2, 1}, {4, 3}, {7, 4}, {9, 1}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        tarry_plan *plan = make(sizes[i][0], sizes[i][1], TARRY_ORDER_OPTIMAL, 1);
        uint32_t workers = tarry_plan_workers(plan), load = sizes[i][0] + 1;
        for (uint32_t copies = 1; copies <= load; copies++) {
            uint64_t q = 1 + (uint64_t)(workers - load) * load + (copies - 1) * load;
            for (uint32_t position = copies; position <= load; position++)
                q += position - 1;
            assert_int_equal(tarry_plan_q(plan, copies), q);
        }
        assert_int_equal(tarry_plan_q(plan, 1), tarry_plan_q_bound(plan, 1));
        tarry_plan_free(plan);
    }
}

/* Worst conditioning stays far below the server's limit of 1000. */
static void two_to_four_parts_are_well_conditioned(void **state)
{
    (void)state;
    for (uint32_t parts = 2; parts <= 4; parts++) {
        tarry_plan *plan = make(4, 1, TARRY_ORDER_OPTIMAL, parts);
        tarry_conditioning conditioning = tarry_plan_conditioning(plan);
        assert_true(conditioning.complete);
        assert_true(conditioning.worst < 200);
        tarry_plan_free(plan);
    }
}

static void sizes_without_a_plane_are_refused(void **state)
{
    (void)state;
    const struct {
        uint32_t workers, chunks, replication;
        const char *why;
    } cases[] = {
        {200, 200, 8,
         HEAD "200 workers, 200 chunks and replication 8; nearest are 228 workers and chunks with "
              "replication 8 (4 of order 7), or 183 with replication 14 (1 of order 13)"},
        {43, 43, 7,
         HEAD "43 workers, 43 chunks and replication 7; nearest are 31 workers and chunks with "
              "replication 6 (1 of order 5)"},
        {7, 14, 3,
         HEAD "7 workers, 14 chunks and replication 3; nearest are 7 workers and chunks with "
              "replication 3 (1 of order 2)"},
        {1, 1, 1,
         HEAD "1 workers, 1 chunks and replication 1; nearest are 7 workers and chunks with "
              "replication 3 (1 of order 2)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan_settings settings =
            plan_settings(cases[i].workers, cases[i].chunks, cases[i].replication,
                          TARRY_DESIGN_PROJECTIVE, TARRY_ORDER_OPTIMAL, 1);
        plan_refused(&settings, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_axioms_of_a_projective_plane_hold),
        cmocka_unit_test(fano_plane_is_listed_line_by_line),
        cmocka_unit_test(the_optimal_order_meets_its_formula),
        cmocka_unit_test(two_to_four_parts_are_well_conditioned),
        cmocka_unit_test(sizes_without_a_plane_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
