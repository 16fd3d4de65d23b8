/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all have the same parameters. After a step they tell a digest of theirs; who has another
 * one than most loads their state. Most are more than half of those who have stepped, and of those
 * who are still to tell; one alone is never most.
 */
#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

static bool has_told(const vote_member *member)
{
    return member->presence == VOTE_READY && member->state != 0;
}

/* The digest that more than half of those who told have, if there is one (Boyer and Moore's
 * majority vote); *same: how many have it, *told: how many told. */
static uint64_t find_most(const vote *it, uint32_t *same, uint32_t *told)
{
    uint64_t most = 0;
    uint32_t lead = 0;
    *same = *told = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const vote_member *member = &it->members[worker];
        if (!has_told(member))
            continue;
        ++*told;
        if (lead == 0)
            most = member->state;
        lead = member->state == most ? lead + 1 : lead - 1;
    }
    for (uint32_t worker = 0; worker < it->workers; worker++)
        *same += has_told(&it->members[worker]) && it->members[worker].state == most;
    return most;
}

static void judge_all(vote *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->members[worker].presence == VOTE_READY)
            vote_judge(it, worker);
    it->changed = true;
}

static uint32_t awaited(const vote *it)
{
    return it->present[VOTE_ASKED] + it->present[VOTE_COMMITTING];
}

void vote_compare(vote *it)
{
    if (!it->uncompared || it->phase != VOTE_CLOSED || it->states[0] != 0 ||
        !vote_compares(it, &it->log[0]))
        return;
    it->uncompared = false;
    uint32_t same, told;
    uint64_t most = find_most(it, &same, &told);
    bool found = same >= 2 && 2 * same > told + awaited(it);
    it->disputed = !found && same < told;
    it->changed = it->changed || it->disputed; /* found after an attempt, it is still to be seen */
    if (!found)
        return;
    it->states[0] = most;
    if (same < told)
        judge_all(it);
}

uint32_t vote_next_stray(vote *it)
{
    for (uint32_t worker = 0; worker < it->workers && it->strays > 0; worker++) {
        if (!it->members[worker].stray_due)
            continue;
        it->members[worker].stray_due = false;
        it->strays--;
        return worker;
    }
    return TARRY_NO_WORKER;
}

void vote_forget_states(vote *it)
{
    it->states[0] = 0;
    it->disputed = it->uncompared = false;
}

/* Who is right nobody can say: each of them may be the one to blame. */
bool vote_is_split(vote *it, uint64_t now, bool running)
{
    if (!running || !it->disputed || it->phase != VOTE_CLOSED || awaited(it) > 0) {
        it->split_ns = TARRY_NEVER;
        return false;
    }
    if (it->split_ns == TARRY_NEVER)
        it->split_ns = now;
    if (now - it->split_ns < it->grace_ns)
        return false;
    it->split_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->members[worker].at_fault = has_told(&it->members[worker]);
    return true;
}
