/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk whose slack is below the bound changes places with one that stands earlier in the order
 * of one of its holders, if the lesser slack of the two then exceeds its own (a lift). Where the
 * least chunks can no more be lifted, the want is passed on: the chunk is raised by an exchange
 * that leaves the other one with just the slack that it had itself, then that one is looked at, and
 * so on by chance, until one can be lifted. No exchange leaves more chunks at or below the least
 * slack than there were, so that it never falls.
 */
#include "plan/order/improve.h"

#include "base/memory.h"
#include "base/random.h"
#include "plan/order/q.h"

/* Exchanges that are looked at, at most: a quarter of a second. */
#define MAX_WORK UINT64_C(100000000)
enum { MAX_STEPS = 500 /* over which a want is passed on */ };

typedef struct improvement {
    tarry_plan *plan;
    uint64_t target; /* no chunk needs more slack */
    slack *slacks;   /* chunks */
    uint64_t work;   /* exchanges looked at */
    random_stream stream;
} improvement;

/* Two slots of the same worker, whose slots begin at `begin`, change places. */
typedef struct exchange {
    uint32_t begin;
    uint32_t late, early;
    uint64_t level; /* the lesser slack of the two chunks after it */
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

static void carry_out(improvement *task, const exchange *pair)
{
    tarry_plan *plan = task->plan;
    const uint32_t slots[2] = {pair->late, pair->early};
    const uint32_t chunk[2] = {plan->slot_chunk[pair->late], plan->slot_chunk[pair->early]};
    const uint32_t holder[2] = {plan->slot_holder[pair->late], plan->slot_holder[pair->early]};
    for (int i = 0; i < 2; i++) {
        uint32_t slot = slots[1 - i];
        plan->slot_chunk[slot] = chunk[i];
        plan->slot_holder[slot] = holder[i];
        plan->holder_position[plan->chunk_offset[chunk[i]] + holder[i]] = slot - pair->begin;
    }
    for (int i = 0; i < 2; i++)
        task->slacks[chunk[i]] = slack_of(plan, chunk[i], plan->parts);
}

static uint64_t least_slack(const improvement *task)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < task->plan->chunks; chunk++)
        if (task->slacks[chunk].sum < least)
            least = task->slacks[chunk].sum;
    return least;
}

/* What the exchanges that raise a chunk above `floor` have to offer. Passes are looked for on
 * demand only: they take a random number each. */
typedef struct offer {
    exchange lift;   /* to the highest level above floor; its level is floor if there is none */
    exchange pass;   /* one by chance of those that leave the other chunk at floor */
    uint32_t passes; /* how many there are */
} offer;

static offer look_around(improvement *task, uint32_t chunk, uint64_t floor, bool passing)
{
    const tarry_plan *plan = task->plan;
    const slack *own = &task->slacks[chunk];
    offer found = {.lift.level = floor};
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
         entry++) {
        uint32_t begin = plan->worker_offset[plan->holder_worker[entry]];
        uint32_t end = plan->worker_offset[plan->holder_worker[entry] + 1];
        uint32_t late = begin + plan->holder_position[entry];
        task->work += late - begin;
        for (uint32_t early = begin; early < late; early++) {
            const slack *other = &task->slacks[plan->slot_chunk[early]];
            uint64_t gained = raised(own, end - late, end - early);
            uint64_t left = lowered(other, end - early, end - late);
            uint64_t level = gained < left ? gained : left;
            const exchange pair = {.begin = begin, .late = late, .early = early, .level = level};
            if (level > found.lift.level)
                found.lift = pair;
            else if (passing && gained > floor && left == floor &&
                     random_below(&task->stream, ++found.passes) == 0)
                found.pass = pair;
        }
    }
    return found;
}

/* Raises `chunk` above its slack by a lift, or by passing its want on over `steps` chunks at most
 * to one that can be lifted; gives back whether that went well. */
static bool satisfy(improvement *task, uint32_t chunk, uint32_t steps)
{
    uint64_t floor = task->slacks[chunk].sum;
    for (uint32_t step = 0; task->work < MAX_WORK; step++) {
        offer found = look_around(task, chunk, floor, step < steps);
        if (found.lift.level > floor) {
            carry_out(task, &found.lift);
            return true;
        }
        if (found.passes == 0)
            return false;
        chunk = task->plan->slot_chunk[found.pass.early];
        carry_out(task, &found.pass);
    }
    return false;
}

/* Tries to satisfy every chunk of slack up to `highest`; gives back whether any could be. */
static bool pass_over(improvement *task, uint64_t highest, uint32_t steps)
{
    bool changed = false;
    for (uint32_t chunk = 0; chunk < task->plan->chunks; chunk++)
        if (task->slacks[chunk].sum <= highest)
            changed |= satisfy(task, chunk, steps);
    return changed;
}

int improve_order(tarry_plan *plan, uint64_t seed)
{
    improvement task = {
        .plan = plan,
        .target = slack_bound(plan, plan->parts),
        .stream = random_stream_make(seed, RANDOM_ORDER, 0, 1),
    };
    task.slacks = memory_allocate(&plan->allocator, plan->chunks, sizeof(*task.slacks));
    if (task.slacks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        task.slacks[chunk] = slack_of(plan, chunk, plan->parts);

    bool changed = true;
    while (changed && task.work < MAX_WORK) {
        while (task.work < MAX_WORK && pass_over(&task, task.target - 1, 0))
            ;
        uint64_t least = least_slack(&task);
        changed = least < task.target && pass_over(&task, least, MAX_STEPS);
    }
    memory_release(&plan->allocator, task.slacks);
    return TARRY_OK;
}
