/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk whose slack is below the bound changes places with one that stands earlier in the order
 * of one of its holders, if the lesser slack of the two grows. The sorted slacks of all chunks then
 * grow lexicographically, so that the search ends and the least slack never falls.
 */
#include "plan/improve.h"

#include "base/memory.h"
#include "plan/q.h"

enum {
    MAX_PASSES = 64,
};

typedef struct improvement {
    tarry_plan *plan;
    uint64_t target; /* no chunk needs more slack */
    slack *slacks;   /* chunks */
} improvement;

typedef struct exchange {
    uint32_t late, early; /* slots of the same worker */
    uint64_t level;       /* the lesser slack of the two chunks after it */
} exchange;

/* The slack after one of the reaches has grown from `before` to `after`. */
static uint64_t raised(const slack *old, uint32_t before, uint32_t after)
{
    if (before > old->largest)
        return old->sum;
    return old->sum - before + (after < old->next ? after : old->next);
}

/* The slack after one of the reaches has shrunk from `before` to `after`. */
static uint64_t lowered(const slack *old, uint32_t before, uint32_t after)
{
    uint32_t leaves = before <= old->largest ? before : old->largest;
    return after < leaves ? old->sum - leaves + after : old->sum;
}

static void swap_slots(improvement *task, uint32_t first, uint32_t second, uint32_t begin)
{
    tarry_plan *plan = task->plan;
    const uint32_t slots[2] = {first, second};
    const uint32_t chunk[2] = {plan->slot_chunk[first], plan->slot_chunk[second]};
    const uint32_t holder[2] = {plan->slot_holder[first], plan->slot_holder[second]};
    for (int i = 0; i < 2; i++) {
        uint32_t slot = slots[1 - i];
        plan->slot_chunk[slot] = chunk[i];
        plan->slot_holder[slot] = holder[i];
        plan->holder_position[plan->chunk_offset[chunk[i]] + holder[i]] = slot - begin;
    }
    for (int i = 0; i < 2; i++)
        task->slacks[chunk[i]] = slack_of(plan, chunk[i], plan->parts);
}

/* Looks among the chunks before the one in `late` for the best exchange. */
static void search_worker(const improvement *task, uint32_t begin, uint32_t end, uint32_t late,
                          exchange *best)
{
    const tarry_plan *plan = task->plan;
    const slack *own = &task->slacks[plan->slot_chunk[late]];
    uint32_t reach = end - late;
    for (uint32_t early = begin; early < late; early++) {
        const slack *other = &task->slacks[plan->slot_chunk[early]];
        uint64_t gained = raised(own, reach, end - early);
        uint64_t left = lowered(other, end - early, reach);
        uint64_t level = gained < left ? gained : left;
        if (level > best->level)
            *best = (exchange){.late = late, .early = early, .level = level};
    }
}

/* Makes the best exchange for `chunk`; gives back whether there is one. */
static bool lift(improvement *task, uint32_t chunk)
{
    tarry_plan *plan = task->plan;
    exchange best = {.level = task->slacks[chunk].sum};
    uint32_t best_begin = 0;
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
         entry++) {
        uint32_t worker = plan->holder_worker[entry];
        uint32_t begin = plan->worker_offset[worker];
        uint64_t before = best.level;
        search_worker(task, begin, plan->worker_offset[worker + 1],
                      begin + plan->holder_position[entry], &best);
        if (best.level > before)
            best_begin = begin;
    }
    if (best.level == task->slacks[chunk].sum)
        return false;
    swap_slots(task, best.late, best.early, best_begin);
    return true;
}

int improve_order(tarry_plan *plan)
{
    improvement task = {.plan = plan, .target = slack_bound(plan, plan->parts)};
    task.slacks = memory_allocate(&plan->allocator, plan->chunks, sizeof(*task.slacks));
    if (task.slacks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        task.slacks[chunk] = slack_of(plan, chunk, plan->parts);

    bool changed = true;
    for (int pass = 0; changed && pass < MAX_PASSES; pass++) {
        changed = false;
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            if (task.slacks[chunk].sum < task.target)
                changed |= lift(&task, chunk);
    }
    memory_release(&plan->allocator, task.slacks);
    return TARRY_OK;
}
