/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/vote/vote.h"

#include <assert.h>
#include <string.h>

#include <tarry/error.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

enum { USUAL_ATTEMPTS = 8 };

int vote_create(const vote_settings *settings, const tarry_allocator *allocator, vote **made)
{
    uint32_t workers = settings->workers;
    vote *it = memory_allocate(allocator, 1, sizeof(*it));
    if (it == NULL)
        return TARRY_ERROR_NO_MEMORY;
    it->allocator = memory_allocator(allocator);
    it->members = memory_allocate(allocator, workers, sizeof(*it->members));
    if (it->members == NULL) {
        memory_release(allocator, it);
        return TARRY_ERROR_NO_MEMORY;
    }
    it->workers = workers;
    it->grace_ns = settings->grace_ns;
    it->attempts_most = settings->attempts_most == 0 ? USUAL_ATTEMPTS : settings->attempts_most;
    it->digest_steps = settings->digest_steps;
    it->term = 1;
    it->alone_ns = it->gone_ns = it->split_ns = it->again_ns = it->held_ns = TARRY_NEVER;
    it->present[VOTE_ABSENT] = it->answered[VOTE_NONE] = workers;
    *made = it;
    return TARRY_OK;
}

void vote_free(vote *it)
{
    if (it == NULL)
        return;
    tarry_allocator allocator = it->allocator;
    memory_release(&allocator, it->members);
    memory_release(&allocator, it);
}

void vote_restart(vote *it, const tarry_sum_id log[2], uint32_t term)
{
    it->log[0] = log[0];
    it->log[1] = log[1];
    it->states[1] = 0;
    vote_forget_states(it);
    it->term = term;
    it->attempt = 0;
}

void vote_adopt(vote *it, const vote *from)
{
    assert(it->workers == from->workers && from->phase == VOTE_CLOSED);
    vote_restart(it, from->log, from->term);
    it->attempt = from->attempt;
    memcpy(it->states, from->states, sizeof(it->states));
    it->vectors = from->vectors;
    it->has_vectors = from->has_vectors;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (from->members[worker].presence == VOTE_ABSENT)
            continue;
        vote_joined(it, worker);
        /* The arrival is the same, and may have heard the last ASK of the plan before only now. */
        it->members[worker].orders = from->members[worker].orders + 1;
    }
}

void vote_set_presence(vote *it, uint32_t worker, vote_presence presence)
{
    vote_member *member = &it->members[worker];
    it->present[member->presence]--;
    it->present[presence]++;
    member->presence = presence;
    if (member->moved)
        return;
    member->moved = true;
    it->moved_from = it->moved == 0 || worker < it->moved_from ? worker : it->moved_from;
    it->moved++;
}

uint32_t vote_next_moved(vote *it)
{
    while (it->moved > 0) {
        uint32_t worker = it->moved_from++;
        if (!it->members[worker].moved)
            continue;
        it->members[worker].moved = false;
        it->moved--;
        return worker;
    }
    return TARRY_NO_WORKER;
}

void vote_forget_moved(vote *it)
{
    while (vote_next_moved(it) != TARRY_NO_WORKER)
        ;
}

void vote_set_catching(vote *it, uint32_t worker, bool catches_up)
{
    vote_member *member = &it->members[worker];
    it->catching += catches_up;
    it->catching -= member->catches_up;
    member->catches_up = catches_up;
}

void vote_set_answer(vote *it, uint32_t worker, vote_answer answer)
{
    vote_member *member = &it->members[worker];
    it->answered[member->answer]--;
    it->answered[answer]++;
    member->answer = answer;
}

static void add_due(vote *it, uint32_t worker)
{
    it->due_from = it->due == 0 || worker < it->due_from ? worker : it->due_from;
    it->due++;
}

/* What it does is in vain. */
void vote_break(vote *it, uint32_t worker, uint32_t because_of)
{
    vote_member *member = &it->members[worker];
    if (!member->break_due)
        add_due(it, worker);
    member->break_due = true;
    member->broken_by = because_of;
}

static void forget_due(vote *it, vote_member *member)
{
    it->due -= (uint32_t)member->ask_due + (uint32_t)member->break_due;
    member->ask_due = member->break_due = false;
}

/* Whether a transfer from `source` is out to it. */
static bool takes_from(const vote_member *member, uint32_t source)
{
    bool transfers = member->presence == VOTE_FETCHING || member->presence == VOTE_LOADING ||
                     member->answer == VOTE_REFETCHES;
    return transfers && member->from == source;
}

/* It votes no more, and those who wait for it are told. */
static void withdraw(vote *it, uint32_t worker)
{
    vote_member *member = &it->members[worker];
    if (it->phase == VOTE_OPEN && member->answer != VOTE_NONE) {
        it->failing = true;
        it->failed = worker;
        member->at_fault = true;
    }
    if (member->answer != VOTE_NONE)
        vote_hurry(it);
    vote_set_answer(it, worker, VOTE_NONE);
    it->changed = true;
}

void vote_hurry(vote *it)
{
    it->hurried = true;
}

void vote_lost(vote *it, uint32_t worker)
{
    vote_member *member = &it->members[worker];
    if (member->presence == VOTE_ABSENT)
        return;
    withdraw(it, worker);
    it->uncompared = true;
    forget_due(it, member);
    it->strays -= member->stray_due;
    member->stray_due = false;
    vote_set_presence(it, worker, VOTE_ABSENT);
    member->has_state = member->strays = false;
    vote_set_catching(it, worker, false);
    member->last = member->held = (tarry_sum_id){0};
    member->state = 0;
    vote_forget_piece(member);
    if (it->present[VOTE_FETCHING] + it->present[VOTE_LOADING] + it->answered[VOTE_REFETCHES] == 0)
        return;
    for (uint32_t other = 0; other < it->workers; other++)
        if (takes_from(&it->members[other], worker))
            vote_break(it, other, worker);
}

void vote_joined(vote *it, uint32_t worker)
{
    vote_member *member = &it->members[worker];
    vote_lost(it, worker);
    vote_set_presence(it, worker, VOTE_ASKED);
    member->ask_due = true;
    member->orders = member->tries = 0;
    member->again_ns = member->load_ns = 0;
    add_due(it, worker);
    it->changed = true;
}

void vote_late(vote *it, uint32_t worker)
{
    if (it->phase != VOTE_OPEN || it->members[worker].answer == VOTE_NONE)
        return;
    withdraw(it, worker);
    vote_break(it, worker, worker);
}

void vote_round(vote *it)
{
    it->tried = it->differed = 0;
    it->pauses = false;
    vote_forget_pieces(it);
}

static bool has_company(const vote *it)
{
    return it->present[VOTE_READY] >= 2 || it->workers == 1;
}

bool vote_may_open(const vote *it)
{
    return it->phase == VOTE_CLOSED && (has_company(it) || it->alone) &&
           it->present[VOTE_READY] > 0 && !it->disputed && !it->holds && !vote_pauses(it);
}

bool vote_exhausted(const vote *it)
{
    return it->tried >= it->attempts_most;
}

void vote_open(vote *it, const uint64_t *group)
{
    assert(it->phase == VOTE_CLOSED);
    it->phase = VOTE_OPEN;
    it->tried++;
    it->fetches = 0;
    it->failing = it->broken = it->pauses = it->hurried = false;
    it->pending = (tarry_sum_id){
        .step = it->log[0].step + 1,
        .term = it->term,
        .attempt = ++it->attempt,
    };
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        vote_member *member = &it->members[worker];
        bool votes = bitset_test(group, worker);
        assert(!votes || member->presence == VOTE_READY);
        vote_set_answer(it, worker, votes ? VOTE_WAITING : VOTE_NONE);
        member->at_fault = false;
        member->suspects = TARRY_NO_WORKER;
        if (!votes)
            continue;
        it->due -= member->break_due; /* the signal ends what it does, too */
        member->break_due = false;
        member->held = (tarry_sum_id){0};
    }
    it->changed = true;
}

void vote_close(vote *it)
{
    if (it->phase == VOTE_OPEN)
        it->phase = VOTE_CLOSED;
}

bool vote_may_grow(const vote *it)
{
    if (it->phase == VOTE_LOGGING || it->phase == VOTE_RETURNING || vote_busy(it) > 0)
        return true;
    for (uint32_t worker = 0; worker < it->workers && it->present[VOTE_BEHIND] > 0; worker++) {
        const vote_member *member = &it->members[worker];
        if (member->presence == VOTE_BEHIND && member->tries < VOTE_TRIES)
            return true;
    }
    return false;
}

bool vote_is_stuck(const vote *it)
{
    return it->phase == VOTE_CLOSED && it->present[VOTE_READY] == 0 &&
           it->present[VOTE_BEHIND] > 0 && vote_busy(it) == 0 && it->again_ns == TARRY_NEVER;
}

uint32_t vote_suspect(const vote *it)
{
    uint32_t best = TARRY_NO_WORKER, most = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        uint32_t suspect = it->members[worker].suspects, count = 0;
        if (suspect >= it->workers || suspect == best)
            continue;
        for (uint32_t other = 0; other < it->workers; other++)
            count += other != suspect && it->members[other].suspects == suspect;
        if (count > most) {
            most = count;
            best = suspect;
        }
    }
    return best;
}

bool vote_at_fault(const vote *it, uint32_t worker)
{
    return it->members[worker].at_fault;
}

uint64_t vote_deadline(const vote *it)
{
    uint64_t next = it->again_ns;
    if (it->alone_ns != TARRY_NEVER && !it->alone && it->alone_ns + it->grace_ns < next)
        next = it->alone_ns + it->grace_ns;
    if (it->gone_ns != TARRY_NEVER && it->gone_ns + it->grace_ns < next)
        next = it->gone_ns + it->grace_ns;
    if (it->holds && it->held_ns + it->hold_ns < next)
        next = it->held_ns + it->hold_ns;
    if (vote_pauses(it) && it->pause_ns < next)
        next = it->pause_ns;
    if (it->split_ns != TARRY_NEVER && it->split_ns + it->grace_ns < next)
        next = it->split_ns + it->grace_ns;
    return next;
}
