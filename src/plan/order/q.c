/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/order/q.h"

#include <assert.h>

/* The reach of an entry as it is, or as it would be in the first position. */
static uint32_t reach_or_load(const tarry_plan *plan, uint32_t entry, bool first)
{
    return reach_of(plan, entry) + (first ? plan->holder_position[entry] : 0);
}

/* How many reaches of the chunk are at most `limit`. */
static uint32_t count_up_to(const tarry_plan *plan, uint32_t chunk, bool first, uint32_t limit)
{
    uint32_t count = 0;
    uint32_t end = plan->chunk_offset[chunk + 1];
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < end; entry++)
        count += reach_or_load(plan, entry, first) <= limit;
    return count;
}

/* By bisection on the k-th least reach: no memory is needed. */
static slack select_least(const tarry_plan *plan, uint32_t chunk, uint32_t copies, bool first)
{
    uint32_t begin = plan->chunk_offset[chunk];
    uint32_t end = plan->chunk_offset[chunk + 1];
    assert(copies >= 1 && copies <= end - begin);
    uint32_t least = end - begin - copies + 1;
    uint32_t low = 1;
    uint32_t high = plan->max_load;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (count_up_to(plan, chunk, first, middle) >= least)
            high = middle;
        else
            low = middle + 1;
    }

    slack result = {.largest = high, .next = UINT32_MAX};
    uint32_t below = 0;
    uint32_t equal = 0;
    for (uint32_t entry = begin; entry < end; entry++) {
        uint32_t reach = reach_or_load(plan, entry, first);
        if (reach < high) {
            result.sum += reach;
            below++;
        } else if (reach == high) {
            equal++;
        } else if (reach < result.next) {
            result.next = reach;
        }
    }
    result.sum += (uint64_t)(least - below) * high;
    if (below + equal > least)
        result.next = high;
    return result;
}

slack slack_of(const tarry_plan *plan, uint32_t chunk, uint32_t copies)
{
    return select_least(plan, chunk, copies, false);
}

uint64_t slack_ceiling(const tarry_plan *plan, uint32_t chunk, uint32_t copies)
{
    return select_least(plan, chunk, copies, true).sum;
}

uint64_t slack_least(const tarry_plan *plan, uint32_t copies)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint64_t sum = slack_of(plan, chunk, copies).sum;
        if (sum < least)
            least = sum;
    }
    return least;
}

uint64_t tarry_plan_q(const tarry_plan *plan, uint32_t copies)
{
    return 1 + plan_edges(plan) - slack_least(plan, copies);
}
