/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from what is known: orders, the end of an attempt, the log. */
#include <assert.h>

#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

/* Attempts in a row whose digests differ end the run. */
enum { MOST_DIFFERING = 3 };

/* Who waits for one that has failed would wait without end. */
static void break_waiting(vote *it)
{
    it->failing = false;
    if (it->broken)
        return;
    it->broken = true;
    for (uint32_t worker = 0; worker < it->workers && it->answered[VOTE_WAITING] > 0; worker++)
        if (it->members[worker].answer == VOTE_WAITING && worker != it->failed)
            vote_break(it, worker, it->failed);
}

static void give_due(vote *it, const vote_way *way)
{
    static const tarry_sum_id none = {0};
    for (uint32_t worker = it->due_from; worker < it->workers && it->due > 0; worker++) {
        vote_member *member = &it->members[worker];
        if (member->ask_due)
            vote_order_to(way, TARRY_MESSAGE_ASK, worker, &none, TARRY_NO_WORKER);
        bool transfers = member->presence == VOTE_FETCHING || member->presence == VOTE_LOADING ||
                         member->answer == VOTE_REFETCHES;
        tarry_sum_id name = it->pending;
        name.digest = 0;
        if (member->break_due)
            vote_order_to(way, TARRY_MESSAGE_BREAK, worker, transfers ? &member->ordered : &name,
                          member->broken_by);
        it->due -= (uint32_t)member->ask_due + (uint32_t)member->break_due;
        member->ask_due = member->break_due = false;
    }
}

static uint32_t voters(const vote *it)
{
    return it->workers - it->answered[VOTE_NONE];
}

static const vote_member *first_holder(const vote *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->members[worker].answer == VOTE_HELD)
            return &it->members[worker];
    return NULL;
}

static bool differs(const vote *it)
{
    const vote_member *first = it->answered[VOTE_HELD] > 1 ? first_holder(it) : NULL;
    if (first == NULL)
        return false;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const vote_member *member = &it->members[worker];
        if (member->answer == VOTE_HELD && member->held.digest != first->held.digest)
            return true;
    }
    return false;
}

/* How many hold the sum with this digest. */
static uint32_t count_digest(const vote *it, uint64_t digest)
{
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        count +=
            it->members[worker].answer == VOTE_HELD && it->members[worker].held.digest == digest;
    return count;
}

/* Those who have other bits than most; where there is no most, all. */
static void blame_differing(vote *it)
{
    uint32_t half = it->answered[VOTE_HELD] / 2;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        vote_member *member = &it->members[worker];
        if (member->answer == VOTE_HELD)
            member->at_fault = count_digest(it, member->held.digest) <= half;
    }
}

static void refetch(vote *it, uint32_t worker, const vote_way *way)
{
    const vote_member *holder = first_holder(it);
    tarry_sum_id sum = holder->held;
    vote_member *member = &it->members[worker];
    vote_set_answer(it, worker, VOTE_REFETCHES);
    it->due -= member->break_due; /* the order ends what it does, too */
    member->break_due = false;
    member->held = (tarry_sum_id){0};
    vote_forget_piece(member); /* what it fetches takes its place */
    member->ordered = sum;
    member->from = vote_find_holder(it, &sum, worker);
    it->fetches++;
    vote_order_to(way, TARRY_MESSAGE_FETCH, worker, &sum, member->from);
}

/*
 * Who failed fetches the sum from one who holds it; if that fails, too, it is set aside once two
 * hold it. A sum that its only voter holds is fetched by somebody who is ready before it counts.
 */
static void pass_on(vote *it, const vote_way *way)
{
    uint32_t held = it->answered[VOTE_HELD];
    bool onlooker = voters(it) == 1 && it->present[VOTE_READY] > 1;
    bool aside = held >= 2 && it->answered[VOTE_UNFETCHED] > 0;
    if (held == 0 || (it->answered[VOTE_FAILED] == 0 && !onlooker && !aside) || differs(it))
        return;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const vote_member *member = &it->members[worker];
        if (member->answer == VOTE_FAILED)
            refetch(it, worker, way);
        else if (member->answer == VOTE_UNFETCHED && held >= 2)
            vote_set_answer(it, worker, VOTE_NONE);
        else if (onlooker && member->presence == VOTE_READY && member->answer == VOTE_NONE) {
            refetch(it, worker, way);
            onlooker = false;
        }
    }
}

/*
 * With the same group the next attempt would fail for the same link, if that is not up by then. The
 * second one of a round comes at once all the same, as a connection that broke is mostly made again
 * at once; the pause before the last one is the grace, and each one before that half as long.
 */
static void begin_pause(vote *it, uint64_t now)
{
    uint32_t left = it->attempts_most - it->tried;
    uint64_t pause = it->tried < 2 || left == 0 || left > 64 ? 0 : it->grace_ns >> (left - 1);
    it->pauses = pause > 0;
    it->pause_ns = now + pause;
}

static vote_outcome end_attempt(vote *it, uint64_t now)
{
    uint32_t held = it->answered[VOTE_HELD];
    if (it->answered[VOTE_WAITING] > 0 || it->answered[VOTE_REFETCHES] > 0)
        return VOTE_GOES_ON;
    if (differs(it)) {
        blame_differing(it);
        it->phase = VOTE_CLOSED;
        return ++it->differed == MOST_DIFFERING ? VOTE_DIFFERS : VOTE_VOID;
    }
    /* The only one who has it can pass it to nobody. */
    bool stuck = held == 1 && it->answered[VOTE_UNFETCHED] > 0;
    if (held == 0 || stuck) {
        it->differed = 0;
        begin_pause(it, now);
        it->phase = VOTE_CLOSED;
        return VOTE_VOID;
    }
    if (it->answered[VOTE_FAILED] > 0 || it->answered[VOTE_UNFETCHED] > 0)
        return VOTE_GOES_ON;
    if (held < 2 && !it->alone && it->workers > 1)
        return VOTE_GOES_ON;
    it->pending.digest = first_holder(it)->held.digest;
    it->phase = VOTE_LOGGING;
    return VOTE_LOG;
}

/* Since when there is nobody else. */
static void watch_company(vote *it, uint64_t now)
{
    if (it->present[VOTE_READY] >= 2 || vote_busy(it) > 0) {
        it->alone_ns = TARRY_NEVER;
        it->alone = false;
        return;
    }
    if (it->alone_ns == TARRY_NEVER)
        it->alone_ns = now;
    it->alone = now - it->alone_ns >= it->grace_ns;
}

/* The newest state to go back to: that of somebody who is there, or the checkpoint. */
static bool find_return(const vote *it, tarry_sum_id *to)
{
    bool found = it->has_vectors && it->vectors.step <= it->log[0].step;
    if (found)
        *to = it->vectors;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const vote_member *member = &it->members[worker];
        if (member->presence != VOTE_BEHIND || !member->has_state ||
            (found && member->last.step <= to->step))
            continue;
        *to = member->last;
        found = true;
    }
    return found;
}

/* Nobody who is there has the last sum or state, and nobody is on the way to it. */
static vote_outcome watch_gone(vote *it, uint64_t now, bool running)
{
    if (!running || !vote_is_stuck(it)) {
        it->gone_ns = TARRY_NEVER;
        return VOTE_GOES_ON;
    }
    if (it->gone_ns == TARRY_NEVER)
        it->gone_ns = now;
    if (now - it->gone_ns < it->grace_ns)
        return VOTE_GOES_ON;
    it->gone_ns = TARRY_NEVER;
    if (it->log[0].step == 0 || !find_return(it, &it->returns_to))
        return VOTE_GONE;
    it->phase = VOTE_RETURNING;
    it->pending = (tarry_sum_id){.step = it->returns_to.step, .term = it->term + 1};
    return VOTE_LOG;
}

vote_outcome vote_act(vote *it, uint64_t now, bool running, vote_give *give, void *user)
{
    const vote_way way = {.give = give, .user = user, .of = it};
    if (!it->changed && running == it->running && now < vote_deadline(it))
        return VOTE_GOES_ON;
    it->changed = false;
    it->running = running;
    watch_company(it, now);
    it->pauses = it->pauses && now < it->pause_ns;
    if (it->phase == VOTE_OPEN) {
        if (it->failing)
            break_waiting(it);
        pass_on(it, &way);
    }
    give_due(it, &way);
    if (it->phase != VOTE_RETURNING)
        vote_help(it, now, &way);
    vote_hold(it, now, running);
    vote_outcome end = it->phase == VOTE_OPEN ? end_attempt(it, now) : VOTE_GOES_ON;
    if (end == VOTE_GOES_ON && vote_is_split(it, now, running))
        end = VOTE_SPLIT;
    return end != VOTE_GOES_ON ? end : watch_gone(it, now, running);
}

void vote_give_due(vote *it, vote_give *give, void *user)
{
    const vote_way way = {.give = give, .user = user, .of = it};
    give_due(it, &way);
}

static void commit(vote *it)
{
    it->log[1] = it->log[0];
    it->states[1] = it->states[0];
    vote_forget_states(it);
    it->log[0] = it->pending;
    it->tried = it->differed = 0;
}

/* Whoever has the state is ready, and all others load it. */
static void go_back(vote *it)
{
    it->log[0] = it->returns_to;
    it->log[1] = (tarry_sum_id){0};
    it->states[1] = 0;
    vote_forget_states(it);
    it->term = it->pending.term;
    it->attempt = it->tried = it->differed = 0;
}

bool vote_logged(vote *it, const tarry_sum_id *sum)
{
    bool returns = it->phase == VOTE_RETURNING;
    if ((it->phase != VOTE_LOGGING && !returns) || !sum_id_same(sum, &it->pending))
        return false;
    it->phase = VOTE_CLOSED;
    it->changed = true;
    if (returns)
        go_back(it);
    else
        commit(it);
    vote_forget_pieces(it);
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        vote_presence presence = it->members[worker].presence;
        vote_set_answer(it, worker, VOTE_NONE);
        if (presence == VOTE_READY || presence == VOTE_BEHIND)
            vote_judge(it, worker);
    }
    return true;
}
