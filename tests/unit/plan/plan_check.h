/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of plans share: checking that its two views agree, changing an order. */
#ifndef TEST_PLAN_CHECK_H
#define TEST_PLAN_CHECK_H

#include "edge_plan.h"
#include "test.h"

/* For fail_each_allocation: makes a plan of the settings `user`, and frees it. */
static inline int plan_attempt(void *user, const tarry_allocator *allocator)
{
    OWNED(tarry_plan) plan = NULL;
    return tarry_plan_create(user, allocator, &plan, NULL);
}

/* The settings are refused as arguments, for exactly this reason. */
static inline void plan_refused(const tarry_plan_settings *settings, const char *why)
{
    tarry_plan *plan = NULL;
    tarry_diagnostic diagnostic = {""};
    assert_int_equal(tarry_plan_create(settings, NULL, &plan, &diagnostic), TARRY_ERROR_ARGUMENT);
    assert_null(plan);
    assert_string_equal(diagnostic.text, why);
}

/* No worker lists a chunk twice, every slot and holder point at each other, holders ascend, and the
 * largest and least counts are right. */
static inline void plan_check_views(const tarry_plan *plan)
{
    uint32_t workers = tarry_plan_workers(plan);
    uint32_t chunks = tarry_plan_chunks(plan);
    OWNED(uint32_t) last = checked_calloc(chunks, sizeof(*last));
    uint32_t max_load = 0;
    size_t copies = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        uint32_t load = tarry_plan_load(plan, worker);
        max_load = load > max_load ? load : max_load;
        copies += load;
        for (uint32_t position = 0; position < load; position++) {
            uint32_t chunk = tarry_plan_chunk(plan, worker, position);
            assert_true(chunk < chunks);
            assert_int_not_equal(last[chunk], worker + 1);
            last[chunk] = worker + 1;
            uint32_t holder = plan->slot_holder[plan->worker_offset[worker] + position];
            assert_true(holder < tarry_plan_replication(plan, chunk));
            assert_int_equal(tarry_plan_holder(plan, chunk, holder), worker);
            assert_int_equal(plan_position(plan, chunk, holder), position);
        }
    }
    assert_int_equal(plan->max_load, max_load);

    uint32_t max_replication = 0;
    uint32_t min_replication = UINT32_MAX;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t replication = tarry_plan_replication(plan, chunk);
        max_replication = replication > max_replication ? replication : max_replication;
        min_replication = replication < min_replication ? replication : min_replication;
        copies -= replication;
        for (uint32_t index = 1; index < replication; index++)
            assert_true(tarry_plan_holder(plan, chunk, index - 1) <
                        tarry_plan_holder(plan, chunk, index));
    }
    assert_int_equal(copies, 0);
    assert_int_equal(plan->max_replication, max_replication);
    assert_int_equal(plan->min_replication, min_replication);
}

/* How far the loads of workers are apart. */
static inline uint32_t load_spread(const tarry_plan *plan)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint32_t load = tarry_plan_load(plan, worker);
        least = load < least ? load : least;
    }
    return plan->max_load - least;
}

/* Exchanges two positions of a worker's order, in both views. */
static inline void plan_swap(tarry_plan *plan, uint32_t worker, uint32_t first, uint32_t second)
{
    uint32_t begin = plan->worker_offset[worker];
    const uint32_t position[2] = {first, second};
    const uint32_t chunk[2] = {plan->slot_chunk[begin + first], plan->slot_chunk[begin + second]};
    const uint32_t holder[2] = {plan->slot_holder[begin + first],
                                plan->slot_holder[begin + second]};
    for (int i = 0; i < 2; i++) {
        plan->slot_chunk[begin + position[1 - i]] = chunk[i];
        plan->slot_holder[begin + position[1 - i]] = holder[i];
        plan->holder_position[plan->chunk_offset[chunk[i]] + holder[i]] = position[1 - i];
    }
}

#endif
