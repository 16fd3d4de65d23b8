/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of racks share: how copies lie, counted from the holders alone. */
#ifndef TEST_RACK_CHECK_H
#define TEST_RACK_CHECK_H

#include "plan_check.h"

/* The chunk's copies that a rack has. */
static inline uint32_t copies_in(const tarry_plan *plan, uint32_t chunk, uint32_t rack)
{
    uint32_t copies = 0;
    for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++)
        copies += tarry_plan_rack(plan, tarry_plan_holder(plan, chunk, i)) == rack;
    return copies;
}

static inline uint32_t rack_size(const tarry_plan *plan, uint32_t rack)
{
    uint32_t size = 0;
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++)
        size += tarry_plan_rack(plan, worker) == rack;
    return size;
}

/* Whether no copy of a chunk could go to a rack that has fewer of them, by two or more. */
static inline bool is_spread(const tarry_plan *plan)
{
    uint32_t racks = tarry_plan_racks(plan);
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        for (uint32_t a = 0; a < racks; a++)
            for (uint32_t b = 0; b < racks; b++) {
                uint32_t here = copies_in(plan, chunk, a), there = copies_in(plan, chunk, b);
                if (here > there + 1 && there < rack_size(plan, b))
                    return false;
            }
    return true;
}

/* Over each rack in turn: the copies that the chunk with the fewest has left when it dies. */
static inline uint32_t left_without_a_rack(const tarry_plan *plan)
{
    uint32_t left = UINT32_MAX;
    for (uint32_t rack = 0; rack < tarry_plan_racks(plan); rack++)
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
            uint32_t copies = tarry_plan_replication(plan, chunk) - copies_in(plan, chunk, rack);
            left = copies < left ? copies : left;
        }
    return left;
}

/* What the plan says of its racks is what its holders show. */
static inline void check_rack_figures(const tarry_plan *plan)
{
    tarry_rack_spread says = tarry_plan_rack_spread(plan);
    uint32_t least = UINT32_MAX, most = 0, together = 0;
    for (uint32_t rack = 0; rack < tarry_plan_racks(plan); rack++) {
        uint32_t size = rack_size(plan, rack);
        least = size < least ? size : least;
        most = size > most ? size : most;
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
            uint32_t copies = copies_in(plan, chunk, rack);
            together = copies > together ? copies : together;
        }
    }
    assert_int_equal(says.least, least);
    assert_int_equal(says.most, most);
    assert_int_equal(says.most_together, together);
    assert_int_equal(says.left, left_without_a_rack(plan));
}

#endif
