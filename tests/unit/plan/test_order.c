/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order/order.h"
#include "plan/plan.h"
#include "plan_check.h"
#include "seed.h"

/* Whether both plans give each worker the same chunks, in any order. */
static bool same_assignment(const tarry_plan *a, const tarry_plan *b)
{
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(a); chunk++) {
        if (tarry_plan_replication(a, chunk) != tarry_plan_replication(b, chunk))
            return false;
        for (uint32_t index = 0; index < tarry_plan_replication(a, chunk); index++)
            if (tarry_plan_holder(a, chunk, index) != tarry_plan_holder(b, chunk, index))
                return false;
    }
    return true;
}

static const uint32_t sizes[][3] = {{1, 1, 1},  {1, 9, 1},  {6, 6, 1},   {7, 7, 3},
                                    {8, 8, 8},  {9, 4, 3},  {9, 20, 4},  {20, 13, 7},
                                    {30, 1, 4}, {3, 50, 2}, {40, 41, 6}, {50, 50, 11}};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

TEST(every_order_keeps_the_assignment)
{
    uint64_t seed = test_seed("orders", 1);
    for (int i = 0; i < SIZES; i++) {
        for (int design = TARRY_DESIGN_CYCLIC; design <= TARRY_DESIGN_RANDOM; design++) {
            tarry_plan_settings settings =
                plan_settings(sizes[i][0], sizes[i][1], sizes[i][2], (tarry_design)design,
                              TARRY_ORDER_AS_IS, seed);
            OWNED(tarry_plan) given = plan_make(&settings);
            for (int order = TARRY_ORDER_OPTIMAL; order <= TARRY_ORDER_RANDOM; order++) {
                settings.order = (tarry_order)order;
                OWNED(tarry_plan) plan = plan_make(&settings);
                plan_check_views(plan);
                assert_true(same_assignment(plan, given));
            }
        }
    }
}

/* Each position is a perfect matching, for even, odd and prime loads, sparse and dense. */
TEST(a_regular_chunk_stands_once_at_every_position)
{
    uint64_t seed = test_seed("regular", 1);
    const uint32_t loads[][2] = {{1, 1}, {8, 1}, {8, 8}, {50, 2}, {50, 3}, {50, 31}, {200, 8}};
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        OWNED(tarry_plan)
        plan = plan_of(loads[i][0], loads[i][0], loads[i][1], TARRY_DESIGN_RANDOM,
                       TARRY_ORDER_OPTIMAL, seed);
        for (uint32_t chunk = 0; chunk < loads[i][0]; chunk++) {
            uint64_t seen = 0;
            for (uint32_t index = 0; index < loads[i][1]; index++)
                seen |= UINT64_C(1) << plan_position(plan, chunk, index);
            assert_int_equal(seen, (UINT64_C(1) << loads[i][1]) - 1);
        }
        assert_int_equal(tarry_plan_q(plan, 1), tarry_plan_q_bound(plan, 1));
    }
}

TEST(random_order_depends_on_the_seed)
{
    tarry_plan_settings settings =
        plan_settings(1, 30, 1, TARRY_DESIGN_CYCLIC, TARRY_ORDER_RANDOM, 1);
    OWNED(tarry_plan) one = plan_make(&settings);
    settings.seed = 2;
    OWNED(tarry_plan) two = plan_make(&settings);
    uint32_t moved = 0;
    uint32_t different = 0;
    for (uint32_t position = 0; position < 30; position++) {
        moved += tarry_plan_chunk(one, 0, position) != position;
        different += tarry_plan_chunk(one, 0, position) != tarry_plan_chunk(two, 0, position);
    }
    assert_true(moved > 20);
    assert_true(different > 20);
}
