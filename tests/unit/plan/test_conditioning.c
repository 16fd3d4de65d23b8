/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <lapacke.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "plan/decode/decode.h"
#include "seed.h"
#include "test.h"

enum { MOST = 12 };

static double by_lapack(const double *columns, uint32_t size)
{
    double copy[MOST * MOST], sigma[MOST], none;
    memcpy(copy, columns, sizeof(*copy) * size * size);
    lapack_int n = (lapack_int)size;
    assert_int_equal(
        LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, n, copy, n, sigma, &none, 1, &none, 1), 0);
    return 1 / sigma[size - 1];
}

TEST(a_set_agrees_with_lapack)
{
    random_stream stream = random_stream_make(test_seed("set", 41), RANDOM_TEST, 0, 0);
    for (uint32_t size = 1; size <= MOST; size++) {
        /* The last column comes ever closer to the first: up to 1/sigma of about 1e7. */
        for (double distance = 1; distance > 1e-7; distance /= 10) {
            double columns[MOST * MOST];
            for (uint32_t k = 0; k < size * size; k++)
                columns[k] = random_normal(&stream);
            for (uint32_t k = 0; k < size && size > 1; k++)
                columns[(size - 1) * size + k] =
                    columns[k] + distance * columns[(size - 1) * size + k];
            double expected = by_lapack(columns, size);
            assert_relative(conditioning_of_columns(columns, size), expected, 1e-6);
        }
    }
}

TEST(a_singular_set_is_infinite)
{
    double zero[4] = {1, 0, 0, 0};
    assert_true(isinf(conditioning_of_columns(zero, 2)));
    double equal[4] = {0.6, 0.8, -0.6, -0.8};
    assert_true(conditioning_of_columns(equal, 2) > 1e15);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Every set of every chunk, by LAPACK, sorted. */
static size_t measure_by_lapack(const tarry_plan *plan, double *values)
{
    size_t count = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        const uint32_t *holders = plan->holder_worker + plan->chunk_offset[chunk];
        uint32_t n = plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
        for (uint32_t bits = 0; bits < UINT32_C(1) << n; bits++) {
            double columns[MOST * MOST];
            uint32_t size = 0;
            if ((uint32_t)__builtin_popcount(bits) != plan->parts)
                continue;
            for (uint32_t h = 0; h < n; h++) {
                for (uint32_t part = 0; part < plan->parts && (bits >> h & 1) != 0; part++)
                    columns[size * plan->parts + part] =
                        plan->decode[part * plan->workers + holders[h]];
                size += bits >> h & 1;
            }
            values[count++] = by_lapack(columns, plan->parts);
        }
    }
    qsort(values, count, sizeof(*values), compare);
    return count;
}

TEST(a_plan_agrees_with_lapack)
{
    uint64_t seed = test_seed("plan", 42);
    OWNED(double) values = checked_malloc(100000 * sizeof(*values));
    for (uint32_t parts = 2; parts <= 5; parts++) {
        tarry_plan *plans[] = {
            edge_plan_cyclic(9, 9, 5, parts),
            edge_plan_fractional(12, 5, 6, parts),
            edge_plan_random(20, 31, 7, parts, seed),
        };
        for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++) {
            edge_plan_random_decode(plans[i], seed);
            size_t count = measure_by_lapack(plans[i], values);
            tarry_conditioning found;
            assert_ok(
                conditioning_measure(plans[i], plans[i]->parts, plans[i]->decode, seed, &found));
            assert_int_equal(found.subsets, count);
            assert_true(found.complete);
            assert_relative(found.worst, values[count - 1], 1e-6);
            assert_relative(found.median, values[(count - 1) / 2], 1e-6);
            tarry_plan_free(plans[i]);
        }
    }
}

/* 24 over 12 sets are too many to look at. */
TEST(too_many_sets_are_sampled)
{
    OWNED(tarry_plan) plan = edge_plan_fractional(24, 1, 24, 12);
    edge_plan_random_decode(plan, 1);
    tarry_conditioning first, other;
    assert_ok(conditioning_measure(plan, plan->parts, plan->decode, 1, &first));
    assert_ok(conditioning_measure(plan, plan->parts, plan->decode, 2, &other));
    assert_false(first.complete);
    assert_true(first.subsets > 1000 && first.subsets < subsets_count(24, 12));
    assert_true(first.worst != other.worst);
    assert_relative(other.median, first.median, 0.05);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    tarry_plan *plan = user;
    plan->allocator = *allocator;
    tarry_conditioning found;
    return conditioning_measure(plan, plan->parts, plan->decode, 1, &found);
}

TEST(every_failed_allocation_is_reported)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(6, 6, 3, 2);
    edge_plan_random_decode(plan, 1);
    tarry_allocator own = plan->allocator;
    assert_int_equal(fail_each_allocation(attempt, plan), 3);
    plan->allocator = own;
}
