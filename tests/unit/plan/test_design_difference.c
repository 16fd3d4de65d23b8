/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_matrix.h"
#include "seed.h"

static tarry_plan *make(uint32_t workers, uint32_t chunks, uint32_t replication, uint64_t seed)
{
    tarry_plan_settings settings = plan_settings(workers, chunks, replication,
                                                 TARRY_DESIGN_DIFFERENCE, TARRY_ORDER_AS_IS, seed);
    return plan_make(&settings);
}

/* Cycles of length 4 are pairs of chunks that share two workers. */
static uint64_t count_four_cycles(const tarry_plan *plan)
{
    unsigned char *held = holder_matrix(plan);
    uint64_t cycles = 0;
    for (uint32_t a = 0; a < tarry_plan_chunks(plan); a++) {
        for (uint32_t b = a + 1; b < tarry_plan_chunks(plan); b++) {
            uint64_t shared = workers_shared(plan, held, a, b);
            cycles += shared > 0 ? shared * (shared - 1) / 2 : 0;
        }
    }
    free(held);
    return cycles;
}

static void every_size_is_simple_and_even(void **state)
{
    (void)state;
    uint64_t seed = test_seed("difference design", 1);
    const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {2, 2}, {7, 7}, {8, 8},  {3, 12},
                                 {5, 1}, {9, 3}, {4, 2}, {6, 6}, {12, 4}, {2, 20}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint32_t replication = 1; replication <= sizes[i][0]; replication++) {
            tarry_plan *plan = make(sizes[i][0], sizes[i][1], replication, seed + replication);
            plan_check_views(plan);
            assert_int_equal(plan->min_replication, replication);
            assert_int_equal(plan->max_replication, replication);
            for (uint32_t worker = 0; worker < sizes[i][0]; worker++)
                assert_true(tarry_plan_load(plan, worker) + 1 >= plan->max_load);
            tarry_plan_free(plan);
        }
    }
}

/* Where the differences have room, none repeats: the girth is 6 or more. */
static void sparse_designs_have_no_four_cycle(void **state)
{
    (void)state;
    uint64_t seed = test_seed("difference design without repeats", 1);
    const uint32_t sizes[][3] = {{200, 200, 8}, {201, 201, 8}, {200, 400, 8}, {400, 200, 16},
                                 {100, 100, 8}, {50, 250, 3},  {7, 7, 3},     {13, 13, 4}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        tarry_plan *plan = make(sizes[i][0], sizes[i][1], sizes[i][2], seed);
        assert_int_equal(count_four_cycles(plan), 0);
        tarry_plan_free(plan);
    }
}

/*
 * Denser ones come near to the least: with N = m, the r (r - 1) differences spread over m - 1
 * residues, each as often as the others or once more.
 */
static void dense_designs_come_near_to_the_least(void **state)
{
    (void)state;
    uint64_t seed = test_seed("dense difference design", 1);
    const uint32_t sizes[][2] = {{40, 8}, {41, 12}, {31, 15}, {60, 30}, {101, 51}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t m = sizes[i][0], r = sizes[i][1];
        uint64_t each = r * (r - 1) / (m - 1), more = r * (r - 1) % (m - 1);
        uint64_t least = m * ((m - 1 - more) * each * (each - 1) + more * (each + 1) * each) / 4;
        tarry_plan *plan = make(sizes[i][0], sizes[i][0], sizes[i][1], seed);
        uint64_t cycles = count_four_cycles(plan);
        tarry_plan *random = NULL;
        tarry_plan_settings settings = plan_settings(sizes[i][0], sizes[i][0], sizes[i][1],
                                                     TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, seed);
        random = plan_make(&settings);
        uint64_t chance = count_four_cycles(random);
        print_message("m = %u, r = %u: %llu cycles, least %llu, random %llu\n", sizes[i][0],
                      sizes[i][1], (unsigned long long)cycles, (unsigned long long)least,
                      (unsigned long long)chance);
        assert_true(cycles >= least);
        assert_true(cycles - least <= (chance - least) / 2);
        tarry_plan_free(plan);
        tarry_plan_free(random);
    }
}

/* Chunk i + 1 stands where chunk i does, one worker further on; and each position has each chunk.
 */
static void the_design_is_cyclic(void **state)
{
    (void)state;
    tarry_plan *plan = make(60, 60, 6, 3);
    unsigned char *held = holder_matrix(plan);
    for (uint32_t chunk = 0; chunk < 60; chunk++)
        for (uint32_t worker = 0; worker < 60; worker++)
            assert_int_equal(held[chunk * 60 + worker],
                             held[(chunk + 1) % 60 * 60 + (worker + 1) % 60]);
    free(held);
    for (uint32_t position = 0; position < 6; position++) {
        uint32_t seen[60] = {0};
        for (uint32_t worker = 0; worker < 60; worker++)
            seen[tarry_plan_chunk(plan, worker, position)]++;
        for (uint32_t chunk = 0; chunk < 60; chunk++)
            assert_int_equal(seen[chunk], 1);
    }
    tarry_plan_free(plan);
}

static void optimal_orders_and_parts_work(void **state)
{
    (void)state;
    for (uint32_t parts = 2; parts <= 4; parts++) {
        tarry_plan_settings settings =
            plan_settings(60, 60, 6, TARRY_DESIGN_DIFFERENCE, TARRY_ORDER_OPTIMAL, 1);
        settings.parts = parts;
        tarry_plan *plan = plan_make(&settings);
        assert_int_equal(tarry_plan_q(plan, 1), 1 + 60 * 6 - 6 * 7 / 2);
        assert_int_equal(tarry_plan_q(plan, 1), tarry_plan_q_bound(plan, 1));
        tarry_conditioning conditioning = tarry_plan_conditioning(plan);
        assert_true(conditioning.complete);
        assert_true(conditioning.worst < 200);
        tarry_plan_free(plan);
    }
}

static void sizes_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    const struct {
        uint32_t workers, chunks;
        const char *why;
    } cases[] = {
        {200, 300,
         "a difference design needs as many chunks as workers, or one a multiple of the other, not "
         "200 workers and 300 chunks: nearest are 200 and 400 chunks"},
        {200, 45,
         "a difference design needs as many chunks as workers, or one a multiple of the other, not "
         "200 workers and 45 chunks: nearest are 40 and 50 chunks"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan_settings settings = plan_settings(
            cases[i].workers, cases[i].chunks, 8, TARRY_DESIGN_DIFFERENCE, TARRY_ORDER_OPTIMAL, 1);
        plan_refused(&settings, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_simple_and_even),
        cmocka_unit_test(sparse_designs_have_no_four_cycle),
        cmocka_unit_test(dense_designs_come_near_to_the_least),
        cmocka_unit_test(the_design_is_cyclic),
        cmocka_unit_test(optimal_orders_and_parts_work),
        cmocka_unit_test(sizes_that_do_not_divide_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
