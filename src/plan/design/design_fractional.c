/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

/* Where share `index` of `total` things begins when they are dealt evenly to `shares`. */
static uint32_t share_begin(uint32_t total, uint32_t shares, uint32_t index)
{
    return (uint32_t)((uint64_t)total * index / shares);
}

/*
 * Lists, for the worker `member` of a group of `members`, its chunks among the group's
 * (first .. first + chunks - 1) into `list`, or only counts them if list is NULL. The chunk's run
 * of holders ends at member floor(index members / chunks), as in the cyclic design.
 */
static uint32_t list_chunks(uint32_t member, uint32_t members, uint32_t first, uint32_t chunks,
                            uint32_t replication, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < chunks; index++) {
        uint32_t last = (uint32_t)((uint64_t)index * members / chunks);
        uint32_t steps_back = last >= member ? last - member : last + members - member;
        if (steps_back >= replication)
            continue;
        if (list != NULL)
            list[count] = first + index;
        count++;
    }
    return count;
}

/* Calls list_chunks for every worker: to count the loads, or to fill the slots. */
static void visit_groups(tarry_plan *plan, uint32_t replication, bool fill)
{
    uint32_t groups = plan->workers / replication;
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t begin = share_begin(plan->workers, groups, group);
        uint32_t members = share_begin(plan->workers, groups, group + 1) - begin;
        uint32_t first = share_begin(plan->chunks, groups, group);
        uint32_t chunks = share_begin(plan->chunks, groups, group + 1) - first;
        for (uint32_t member = 0; member < members; member++) {
            uint32_t *list = fill ? plan->slot_chunk + plan->worker_offset[begin + member] : NULL;
            uint32_t load = list_chunks(member, members, first, chunks, replication, list);
            if (!fill)
                plan->worker_offset[begin + member + 1] = load;
        }
    }
}

int design_fractional(tarry_plan *plan, uint32_t replication)
{
    visit_groups(plan, replication, false);
    int error = design_take_slots(plan);
    if (error != TARRY_OK)
        return error;
    visit_groups(plan, replication, true);
    return TARRY_OK;
}
