/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "plan/order/order.h"
#include "plan_check.h"
#include "seed.h"

/* From any order, for any number of parts, the least slack does not fall, and both views agree. */
TEST(the_least_slack_never_falls)
{
    random_stream stream = random_stream_make(test_seed("improve", 1), RANDOM_TEST, 0, 0);
    uint32_t better = 0;
    for (uint32_t trial = 0; trial < 80; trial++) {
        uint32_t workers = 1 + random_below(&stream, 20);
        uint32_t chunks = 1 + random_below(&stream, 30);
        uint32_t replication = 1 + random_below(&stream, workers < 6 ? workers : 6);
        tarry_plan_settings settings =
            plan_settings(workers, chunks, replication, TARRY_DESIGN_RANDOM, TARRY_ORDER_RANDOM,
                          random_u64(&stream));
        settings.parts = 1 + random_below(&stream, replication);
        OWNED(tarry_plan) plan = plan_make(&settings);
        uint64_t before = slack_least(plan, settings.parts);
        assert_ok(improve_order(plan, trial));
        plan_check_views(plan);
        uint64_t after = slack_least(plan, settings.parts);
        assert_true(after >= before);
        assert_true(after <= slack_bound(plan, settings.parts));
        better += after > before;
    }
    assert_true(better > 5);
}

/* Where all slacks can be equal, the last ones are reached by passing wants on; in the fractional
 * design with groups of different sizes, those of the larger groups decide. */
TEST(the_bound_is_reached_for_one_part)
{
    const struct {
        uint32_t workers, chunks, replication;
        tarry_design design;
    } cases[] = {
        {200, 150, 8, TARRY_DESIGN_RANDOM},  {200, 300, 8, TARRY_DESIGN_RANDOM},
        {200, 1000, 8, TARRY_DESIGN_RANDOM}, {60, 47, 5, TARRY_DESIGN_RANDOM},
        {200, 300, 8, TARRY_DESIGN_CYCLIC},  {205, 300, 8, TARRY_DESIGN_FRACTIONAL},
        {7, 10, 3, TARRY_DESIGN_FRACTIONAL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OWNED(tarry_plan)
        plan = plan_of(cases[i].workers, cases[i].chunks, cases[i].replication, cases[i].design,
                       TARRY_ORDER_OPTIMAL, 1);
        assert_int_equal(tarry_plan_q(plan, 1), tarry_plan_q_bound(plan, 1));
    }
}
