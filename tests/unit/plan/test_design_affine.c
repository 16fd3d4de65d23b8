/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_matrix.h"

#define HEAD                                                                                       \
    "affine planes have q^2+q workers, q^2 chunks and replication q+1, or q^2 workers, q^2+q "     \
    "chunks and replication q, for a prime power q, not "

static tarry_plan *make(uint32_t order, uint32_t planes, bool dual, tarry_order arrangement,
                        uint32_t parts)
{
    uint32_t points = planes * order * order, lines = planes * (order * order + order);
    tarry_plan_settings settings =
        plan_settings(dual ? points : lines, dual ? lines : points, dual ? order : order + 1,
                      TARRY_DESIGN_AFFINE, arrangement, 1);
    settings.parts = parts;
    return plan_make(&settings);
}

/*
 * Two points of a plane lie on exactly one line; two lines meet in one point, or are of the same
 * parallel class and meet in none.
 */
static void check_axioms(uint32_t order, uint32_t planes, bool dual)
{
    tarry_plan *plan = make(order, planes, dual, TARRY_ORDER_AS_IS, 1);
    plan_check_views(plan);
    unsigned char *held = holder_matrix(plan);
    uint32_t points = order * order, lines = order * order + order;
    for (uint32_t a = 0; a < planes * points; a++) {
        for (uint32_t b = a + 1; b < planes * points; b++) {
            uint32_t shared =
                dual ? chunks_shared(plan, held, a, b) : workers_shared(plan, held, a, b);
            assert_int_equal(shared, a / points == b / points);
        }
    }
    for (uint32_t a = 0; a < planes * lines; a++) {
        for (uint32_t b = a + 1; b < planes * lines; b++) {
            uint32_t shared =
                dual ? workers_shared(plan, held, a, b) : chunks_shared(plan, held, a, b);
            assert_int_equal(shared, a / lines == b / lines && a / order != b / order);
        }
    }
    free(held);
    tarry_plan_free(plan);
}

static void the_axioms_of_an_affine_plane_hold(void **state)
{
    (void)state;
    const uint32_t orders[] = {2, 3, 4, 5, 7, 8, 9, 11, 13};
    for (int dual = 0; dual < 2; dual++) {
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
            check_axioms(orders[i], 1, dual);
        check_axioms(2, 5, dual);
        check_axioms(4, 3, dual);
    }
}

static void loads_and_replications_are_the_planes(void **state)
{
    (void)state;
    for (int dual = 0; dual < 2; dual++) {
        tarry_plan *plan = make(8, 3, dual, TARRY_ORDER_OPTIMAL, 1);
        assert_int_equal(plan->max_load, dual ? 9 : 8);
        for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++)
            assert_int_equal(tarry_plan_load(plan, worker), plan->max_load);
        assert_int_equal(plan->min_replication, dual ? 8 : 9);
        assert_int_equal(plan->max_replication, dual ? 8 : 9);
        tarry_plan_free(plan);
    }
}

/* Each run of q workers holds all chunks of a plane once. */
static void parallel_classes_are_neighbours(void **state)
{
    (void)state;
    tarry_plan *plan = make(9, 2, false, TARRY_ORDER_OPTIMAL, 1);
    for (uint32_t first = 0; first < tarry_plan_workers(plan); first += 9) {
        uint32_t seen[162] = {0};
        uint32_t plane = first / 90;
        for (uint32_t worker = first; worker < first + 9; worker++)
            for (uint32_t position = 0; position < 9; position++)
                seen[tarry_plan_chunk(plan, worker, position)]++;
        for (uint32_t chunk = 0; chunk < 162; chunk++)
            assert_int_equal(seen[chunk], chunk / 81 == plane);
    }
    tarry_plan_free(plan);
}

static void orders_stay_above_the_bound(void **state)
{
    (void)state;
    for (int dual = 0; dual < 2; dual++) {
        tarry_plan *optimal = make(7, 4, dual, TARRY_ORDER_OPTIMAL, 1);
        tarry_plan *random = make(7, 4, dual, TARRY_ORDER_RANDOM, 1);
        assert_int_equal(tarry_plan_q(optimal, 1), tarry_plan_q_bound(optimal, 1));
        assert_true(tarry_plan_q(optimal, 1) < tarry_plan_q(random, 1));
        for (uint32_t copies = 2; copies <= 7; copies++)
            assert_true(tarry_plan_q(optimal, copies) >= tarry_plan_q_bound(optimal, copies));
        tarry_plan_free(optimal);
        tarry_plan_free(random);
    }
}

/* Worst conditioning stays far below the server's limit of 1000. */
static void two_to_four_parts_are_well_conditioned(void **state)
{
    (void)state;
    for (uint32_t parts = 2; parts <= 4; parts++) {
        for (int dual = 0; dual < 2; dual++) {
            tarry_plan *plan = make(4, 1, dual, TARRY_ORDER_OPTIMAL, parts);
            tarry_conditioning conditioning = tarry_plan_conditioning(plan);
            assert_true(conditioning.complete);
            assert_true(conditioning.worst < 200);
            tarry_plan_free(plan);
        }
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
         HEAD
         "200 workers, 200 chunks and replication 8; nearest are 224 workers, 196 chunks, "
         "replication 8 (4 of order 7) and 192 workers, 216 chunks, replication 8 (3 of order 8)"},
        {6, 9, 4,
         HEAD
         "6 workers, 9 chunks and replication 4; nearest are 12 workers, 9 chunks, "
         "replication 4 (1 of order 3) and 16 workers, 20 chunks, replication 4 (1 of order 4)"},
        {1, 1, 1,
         HEAD "1 workers, 1 chunks and replication 1; nearest are 6 workers, 4 chunks, replication "
              "3 (1 of order 2) and 4 workers, 6 chunks, replication 2 (1 of order 2)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan_settings settings =
            plan_settings(cases[i].workers, cases[i].chunks, cases[i].replication,
                          TARRY_DESIGN_AFFINE, TARRY_ORDER_OPTIMAL, 1);
        plan_refused(&settings, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_axioms_of_an_affine_plane_hold),
        cmocka_unit_test(loads_and_replications_are_the_planes),
        cmocka_unit_test(parallel_classes_are_neighbours),
        cmocka_unit_test(orders_stay_above_the_bound),
        cmocka_unit_test(two_to_four_parts_are_well_conditioned),
        cmocka_unit_test(sizes_without_a_plane_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
