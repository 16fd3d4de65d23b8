/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"
#include "failing_allocator.h"
#include "plan_check.h"

TEST(numbers_out_of_range_are_refused)
{
    const struct {
        uint32_t workers, chunks, pieces, replication, parts;
        const char *why;
    } cases[] = {
        {0, 8, 1, 3, 1, "workers must be 1 to 2^32 - 2"},
        {8, 0, 1, 3, 1, "chunks must be 1 to 2^32 - 2"},
        {8, 8, 0, 3, 1, "pieces must be at least 1"},
        {8, 1000000, 5000, 1, 1, "1000000 chunks of 5000 pieces are more than 2^32 - 2 pieces"},
        {8, 1000, 1000000, 2, 1,
         "1000000000 pieces with replication 2 are more than 1073741824 copies"},
        {8, 8, 1, 0, 1, "replication must be at least 1"},
        {8, 8, 1, 9, 1, "replication 9 is more than the 8 workers"},
        {8, 8, 1, 3, 0, "parts must be at least 1"},
        {8, 8, 1, 3, 4, "4 parts are more than the replication 3"},
        {3, 1000000000, 1, 2, 1,
         "1000000000 chunks with replication 2 are more than 1073741824 copies"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan_settings settings =
            plan_settings(cases[i].workers, cases[i].chunks, cases[i].replication,
                          TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 1);
        settings.pieces = cases[i].pieces;
        settings.parts = cases[i].parts;
        plan_refused(&settings, cases[i].why);
    }
}

TEST(designs_orders_and_racks_that_do_not_fit_are_refused)
{
    const struct {
        uint32_t parts;
        tarry_design design;
        const char *file;
        tarry_order order;
        uint32_t rack_size;
        const char *rack_file, *why;
    } cases[] = {
        {9, TARRY_DESIGN_FILE, "x", 0, 0, NULL, "9 parts are more than the 8 workers"},
        {1, TARRY_DESIGN_FILE, NULL, 0, 0, NULL, "a design from a file needs the file's name"},
        {1, (tarry_design)9, NULL, 0, 0, NULL, "design 9 does not exist"},
        {1, TARRY_DESIGN_RANDOM, NULL, (tarry_order)9, 0, NULL, "order 9 does not exist"},
        {1, TARRY_DESIGN_RANDOM, NULL, 0, 9, NULL,
         "racks of 9 workers are more than the 8 workers"},
        {1, TARRY_DESIGN_RANDOM, NULL, 0, 4, "x", "racks are either of a size or named in a file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan_settings settings = plan_settings(8, 8, 3, cases[i].design, cases[i].order, 1);
        settings.parts = cases[i].parts;
        settings.file = cases[i].file;
        settings.rack_size = cases[i].rack_size;
        settings.rack_file = cases[i].rack_file;
        plan_refused(&settings, cases[i].why);
    }
}

TEST(the_default_settings_make_a_plan)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    OWNED(tarry_plan) plan = plan_make(&settings);
    plan_check_views(plan);
    assert_int_equal(tarry_plan_workers(plan), 8);
    assert_int_equal(tarry_plan_chunks(plan), 8);
    assert_int_equal(tarry_plan_parts(plan), 1);
    for (uint32_t worker = 0; worker < 8; worker++) {
        assert_int_equal(tarry_plan_load(plan, worker), 3);
        assert_true(tarry_plan_decode_weight(plan, 0, worker) == 1);
    }
    tarry_conditioning conditioning = tarry_plan_conditioning(plan);
    assert_true(conditioning.worst >= conditioning.median);
    tarry_plan_free(NULL);
}

/* A change of these digests is a change of what a seed means: jobs under way can't be continued. */
TEST(plans_are_the_same_on_every_machine)
{
    const struct {
        uint32_t workers, chunks, replication;
        tarry_design design;
        tarry_order order;
        const char *digest;
    } cases[] = {
        {5, 5, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS,
         "7cde96fa4f245c5a3671011042d717e81d5e7cfad00516064e5f9ece0664c772"},
        {7, 12, 3, TARRY_DESIGN_FRACTIONAL, TARRY_ORDER_OPTIMAL,
         "20fa9ad55bf4e279272aa5b41b17319d3d4a525bb691ca3596866d256edab6f5"},
        {30, 30, 7, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL,
         "a204f6f5e59b6ab75f92dc80c1e5de9a2784b3377c2e06e4e63d4783f5718fce"},
        {30, 30, 20, TARRY_DESIGN_RANDOM, TARRY_ORDER_RANDOM,
         "1460ca20a4d5b6ec4191a81d570ff404a81b9c5a5a6d02c0eba2f44fe04a5311"},
        {40, 70, 5, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL,
         "d79e20360d96f55b8d0a7ff5abc4088668a47c5a48bc81f0cec02fcd3f03ff1a"},
        {1000, 1000, 20, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS,
         "b9f89d211bbcd5a5ba85f0cab2ce8acfac3452f7b7a15b540f5188e02237bda4"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OWNED(tarry_plan)
        plan = plan_of(cases[i].workers, cases[i].chunks, cases[i].replication, cases[i].design,
                       cases[i].order, 12345);
        char text[2 * TARRY_DIGEST_SIZE + 1];
        hex_put(text, plan->digest, TARRY_DIGEST_SIZE);
        assert_string_equal(text, cases[i].digest);
    }
}

/* Every setting that changes the plan changes its digest; the same settings give it again. */
TEST(the_digest_tells_plans_apart)
{
    tarry_plan_settings settings[7];
    for (int i = 0; i < 7; i++)
        settings[i] = plan_settings(8, 8, 3, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    settings[1].workers = 9;
    settings[2].chunks = 9;
    settings[3].replication = 4;
    settings[4].parts = 2;
    settings[5].order = TARRY_ORDER_RANDOM;
    settings[6].parts = 2;
    settings[6].seed = 2;
    uint8_t digest[7][TARRY_DIGEST_SIZE];
    for (int i = 0; i < 7; i++) {
        OWNED(tarry_plan) plan = plan_make(&settings[i]), again = plan_make(&settings[i]);
        tarry_plan_digest(plan, digest[i]);
        for (int earlier = 0; earlier < i; earlier++)
            assert_memory_not_equal(digest[i], digest[earlier], TARRY_DIGEST_SIZE);
        assert_memory_equal(again->digest, digest[i], TARRY_DIGEST_SIZE);
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    OWNED(tarry_plan) plan = NULL;
    tarry_diagnostic diagnostic = {""};
    int error = tarry_plan_create(user, allocator, &plan, &diagnostic);
    if (error != TARRY_OK)
        assert_string_equal(diagnostic.text, "plan: out of memory");
    return error;
}

TEST(each_allocation_may_fail)
{
    for (int design = TARRY_DESIGN_CYCLIC; design <= TARRY_DESIGN_RANDOM; design++) {
        for (int order = TARRY_ORDER_OPTIMAL; order <= TARRY_ORDER_AS_IS; order++) {
            tarry_plan_settings settings =
                plan_settings(4, 6, 2, (tarry_design)design, (tarry_order)order, 1);
            settings.parts = 2;
            assert_true(fail_each_allocation(attempt, &settings) > 8);
        }
    }
}

TEST(large_plans_are_made)
{
    OWNED(tarry_plan) plan = plan_of(2000, 2000, 32, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 1);
    assert_int_equal(tarry_plan_q(plan, 1), 1 + 2000 * 32 - 32 * 33 / 2);
}
