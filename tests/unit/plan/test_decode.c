/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/memory.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "plan/decode/decode.h"
#include "seed.h"
#include "test.h"

static void assert_unit_columns(const tarry_plan *plan, const double *decode)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        double square = 0;
        for (uint32_t part = 0; part < plan->parts; part++) {
            double value = decode[part * plan->workers + worker];
            square += value * value;
        }
        assert_true(fabs(square - 1) < 1e-14);
    }
}

TEST(one_part_has_all_ones)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(7, 7, 3, 1);
    assert_ok(decode_make(plan, 1, NULL));
    for (uint32_t worker = 0; worker < 7; worker++)
        assert_true(plan->decode[worker] == 1);
    assert_true(plan->conditioning.worst == 1 && plan->conditioning.median == 1);
    assert_int_equal(plan->conditioning.subsets, 21);
    assert_true(plan->conditioning.complete);
}

TEST(columns_have_unit_length)
{
    uint64_t seed = test_seed("unit", 51);
    for (uint32_t parts = 2; parts <= 5; parts++) {
        tarry_plan *plans[] = {
            edge_plan_cyclic(9, 9, 5, parts),
            edge_plan_fractional(10, 5, 5, parts),
            /* Loads differ, down to none at all. */
            edge_plan_random(20, 5, 6, parts, seed),
        };
        for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++) {
            assert_ok(decode_make(plans[i], seed, NULL));
            assert_unit_columns(plans[i], plans[i]->decode);
            tarry_plan_free(plans[i]);
        }
    }
}

/* The bits of all columns, by FNV-1a. */
static uint64_t hash_decode(const tarry_plan *plan)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t k = 0; k < (size_t)plan->parts * plan->workers; k++) {
        uint64_t bits;
        memcpy(&bits, &plan->decode[k], sizeof(bits));
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* These bits are part of what a seed means: they change with the version of the program alone. */
TEST(a_seed_gives_the_same_bits_everywhere)
{
    static const struct {
        uint32_t parts;
        uint64_t seed, hash;
        double first;
    } golden[] = {
        {2, 1, UINT64_C(0xb5b4aa99c15b0b11), -0x1.f8ac5eee2c132p-1},
        {3, 1, UINT64_C(0xf0842282213061cc), -0x1.9cea50a10a2b1p-1},
        {3, 2, UINT64_C(0x9f6f0ed00ffd6d38), 0x1.b25cc4a21d118p-1},
        {5, 1, UINT64_C(0xce9961c60488f19b), -0x1.269160b7fa919p-3},
    };
    for (size_t i = 0; i < sizeof(golden) / sizeof(*golden); i++) {
        OWNED(tarry_plan) plan = edge_plan_cyclic(10, 10, 5, golden[i].parts);
        assert_ok(decode_make(plan, golden[i].seed, NULL));
        if (plan->decode[0] != golden[i].first || hash_decode(plan) != golden[i].hash)
            fail_msg("{%u, %llu, UINT64_C(0x%llx), %a}", golden[i].parts,
                     (unsigned long long)golden[i].seed, (unsigned long long)hash_decode(plan),
                     plan->decode[0]);
    }
}

/* The best that there can be: orthonormal columns, and lines evenly spread over half a turn. */
TEST(ideal_columns_are_found)
{
    for (uint32_t parts = 2; parts <= 4; parts++) {
        OWNED(tarry_plan) plan = edge_plan_fractional(2 * parts, 2 * parts, parts, parts);
        assert_ok(decode_make(plan, 1, NULL));
        assert_true(plan->conditioning.worst < 1.00001);
    }
    for (uint32_t replication = 3; replication <= 6; replication++) {
        OWNED(tarry_plan) plan = edge_plan_fractional(replication, 2, replication, 2);
        assert_ok(decode_make(plan, 1, NULL));
        double ideal = 1 / sqrt(1 - cos(3.141592653589793 / replication));
        assert_true(plan->conditioning.worst < 1.01 * ideal);
    }
}

TEST(designs_are_far_better_than_random_columns)
{
    static const struct {
        uint32_t workers, replication, parts;
        double worst;
    } cases[] = {{8, 3, 2, 1.9}, {8, 3, 3, 1.8}, {60, 6, 2, 6.5}, {60, 6, 3, 12.5}, {60, 6, 4, 12}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t workers = cases[i].workers, replication = cases[i].replication;
        OWNED(tarry_plan) plan = edge_plan_random(workers, workers, replication, cases[i].parts, 1);
        assert_ok(decode_make(plan, 1, NULL));
        if (plan->conditioning.worst > cases[i].worst)
            fail_msg("worst is %g, median %g", plan->conditioning.worst, plan->conditioning.median);
    }
}

TEST(the_conditioning_told_is_that_of_the_matrix)
{
    OWNED(tarry_plan) plan = edge_plan_random(12, 15, 5, 3, 1);
    assert_ok(decode_make(plan, 7, NULL));
    tarry_conditioning found;
    assert_ok(conditioning_measure(plan, plan->parts, plan->decode, 7, &found));
    assert_true(found.worst == plan->conditioning.worst);
    assert_true(found.median == plan->conditioning.median);
    assert_int_equal(found.subsets, plan->conditioning.subsets);
}

/* With little to spend, a turn looks at some sets of each chunk, or of some chunks only. */
TEST(little_work_still_gives_unit_columns)
{
    OWNED(tarry_plan) plan = edge_plan_random(30, 40, 8, 4, 1);
    double decode[4 * 30];
    for (double operations = 1e8; operations > 1; operations /= 10) {
        assert_ok(descent_spread(plan, plan->parts, 1, 0, operations, decode));
        assert_unit_columns(plan, decode);
        /* The least is two turns per worker that look at one set each. */
        if (operations >= 1e5)
            assert_true(descent_operations(plan, plan->parts, operations) <= 4 * operations);
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_plan *plan = user;
    plan->allocator = *allocator;
    int error = decode_make(plan, 1, NULL);
    if (error != TARRY_OK)
        assert_null(plan->decode);
    memory_release(allocator, plan->decode);
    plan->decode = NULL;
    return error;
}

TEST(every_failed_allocation_is_reported)
{
    for (uint32_t parts = 1; parts <= 2; parts++) {
        OWNED(tarry_plan) plan = edge_plan_cyclic(4, 4, 2, parts);
        tarry_allocator own = plan->allocator;
        size_t allocations = fail_each_allocation(attempt, plan);
        assert_true(parts == 1 ? allocations == 1 : allocations > 8);
        plan->allocator = own;
    }
}
