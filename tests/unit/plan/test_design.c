/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"
#include "seed.h"

static const struct {
    uint32_t workers, chunks;
} grid[] = {{1, 1}, {1, 7}, {2, 2}, {3, 3}, {3, 200}, {4, 2},  {5, 1},
            {6, 9}, {7, 7}, {8, 8}, {8, 3}, {9, 4},   {11, 30}};

enum { GRID = sizeof(grid) / sizeof(grid[0]) };

static void check_grid(tarry_design design, bool even, uint64_t seed)
{
    for (int g = 0; g < GRID; g++) {
        for (uint32_t replication = 1; replication <= grid[g].workers; replication++) {
            OWNED(tarry_plan)
            plan = plan_of(grid[g].workers, grid[g].chunks, replication, design, TARRY_ORDER_AS_IS,
                           seed + replication);
            plan_check_views(plan);
            assert_int_equal(plan->min_replication, replication);
            assert_int_equal(plan->max_replication, replication);
            if (even)
                assert_true(load_spread(plan) <= 1);
        }
    }
}

TEST(cyclic_is_simple_and_even)
{
    check_grid(TARRY_DESIGN_CYCLIC, true, 1);
}

TEST(cyclic_lists_neighbours_in_turn)
{
    OWNED(tarry_plan) plan = plan_of(7, 7, 3, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    for (uint32_t worker = 0; worker < 7; worker++)
        for (uint32_t position = 0; position < 3; position++)
            assert_int_equal(tarry_plan_chunk(plan, worker, position), (worker + position) % 7);
}

TEST(fractional_is_simple)
{
    check_grid(TARRY_DESIGN_FRACTIONAL, false, 1);
}

/* m = 8 and replication 3: two groups of 4;
 * m = 9: three groups of 3, which hold the same chunks. */
TEST(fractional_keeps_to_its_groups)
{
    OWNED(tarry_plan) plan = plan_of(8, 8, 3, TARRY_DESIGN_FRACTIONAL, TARRY_ORDER_AS_IS, 1);
    OWNED(tarry_plan) thirds = plan_of(9, 8, 3, TARRY_DESIGN_FRACTIONAL, TARRY_ORDER_AS_IS, 1);
    for (uint32_t worker = 0; worker < 8; worker++) {
        assert_int_equal(tarry_plan_load(plan, worker), 3);
        for (uint32_t position = 0; position < 3; position++)
            assert_int_equal(tarry_plan_chunk(plan, worker, position) / 4, worker / 4);
    }
    for (uint32_t worker = 0; worker < 9; worker++) {
        uint32_t first = tarry_plan_load(thirds, worker) == 2 ? 0 : worker < 6 ? 2 : 5;
        assert_int_equal(tarry_plan_load(thirds, worker), worker < 3 ? 2 : 3);
        for (uint32_t position = 0; position < tarry_plan_load(thirds, worker); position++)
            assert_int_equal(tarry_plan_chunk(thirds, worker, position), first + position);
    }
}

TEST(random_is_simple_and_even)
{
    uint64_t seed = test_seed("random design", 1);
    for (uint64_t trial = 0; trial < 10; trial++)
        check_grid(TARRY_DESIGN_RANDOM, true, seed + 100 * trial);
}

/* Every pair (worker, chunk) is equally likely: each occurs in about 3/6 of 600 designs, and the
 * same holds for the complement of a sparser one (4/6). */
TEST(random_prefers_no_pair)
{
    uint64_t seed = test_seed("random pairs", 7);
    for (uint32_t replication = 2; replication <= 4; replication++) {
        uint32_t hits[6][6] = {{0}};
        for (uint64_t trial = 0; trial < 600; trial++) {
            OWNED(tarry_plan)
            plan = plan_of(6, 6, replication, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, seed + trial);
            for (uint32_t worker = 0; worker < 6; worker++)
                for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++)
                    hits[worker][tarry_plan_chunk(plan, worker, position)]++;
        }
        for (int worker = 0; worker < 6; worker++)
            for (int chunk = 0; chunk < 6; chunk++)
                assert_in_range(hits[worker][chunk], 100 * replication - 65,
                                100 * replication + 65);
    }
}

/* Dense, sparse and lopsided sizes, in which a careless repair of doubles could run on for ever. */
TEST(random_handles_large_and_lopsided_sizes)
{
    const uint32_t sizes[][3] = {{2000, 2000, 32}, {400, 400, 400}, {400, 400, 399},
                                 {400, 400, 200},  {401, 400, 200}, {3, 2000, 2},
                                 {2000, 3, 1000},  {2000, 1, 1999}, {1, 10000, 1},
                                 {10000, 1, 3},    {2, 5000, 1}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        OWNED(tarry_plan)
        plan = plan_of(sizes[i][0], sizes[i][1], sizes[i][2], TARRY_DESIGN_RANDOM,
                       TARRY_ORDER_AS_IS, 3);
        plan_check_views(plan);
        assert_int_equal(plan->min_replication, sizes[i][2]);
        assert_int_equal(plan->max_replication, sizes[i][2]);
        assert_true(load_spread(plan) <= 1);
    }
}
