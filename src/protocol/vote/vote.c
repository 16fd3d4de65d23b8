/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/vote/vote.h"

#include <assert.h>
#include <string.h>

#include <tarry/error.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/sum_id.h"

/* After so many transfers that failed in a row a worker is not waited for. */
enum { VOTE_TRIES = 8 };

/* How many have an order out, but for that to sum and to fetch an attempt's sum. */
static uint32_t vote_busy(const vote *it)
{
    return it->present[VOTE_ASKED] + it->present[VOTE_FETCHING] + it->present[VOTE_LOADING] +
           it->present[VOTE_COMMITTING];
}

/* Whether the next attempt waits for links to come up that the last one failed for. */
static bool vote_pauses(const vote *it)
{
    return it->pauses && !it->hurried;
}

/* Whether the parameters after this sum are compared. */
static bool vote_compares(const vote *it, const tarry_sum_id *sum)
{
    return it->digest_steps > 0 && sum->step > 0 && sum->step % it->digest_steps == 0;
}

/* Whether it may be computing with the state that it is thought to have. */
static bool vote_has_begun(const vote_member *member)
{
    return member->presence == VOTE_READY || member->presence == VOTE_COMMITTING;
}

/* What orders are given through. */
typedef struct vote_way {
    vote_give *give;
    void *user;
    vote *of;
} vote_way;

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

/* The log's last entry is another one. */
static void vote_forget_states(vote *it)
{
    it->states[0] = 0;
    it->disputed = it->uncompared = false;
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

static void vote_set_presence(vote *it, uint32_t worker, vote_presence presence)
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

static void vote_set_catching(vote *it, uint32_t worker, bool catches_up)
{
    vote_member *member = &it->members[worker];
    it->catching += catches_up;
    it->catching -= member->catches_up;
    member->catches_up = catches_up;
}

static void vote_set_answer(vote *it, uint32_t worker, vote_answer answer)
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

/* What it does is in vain, because of another one: it is told when orders are given. */
/* What it does is in vain. */
static void vote_break(vote *it, uint32_t worker, uint32_t because_of)
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

/*
 * Whether all have the same parameters. After a step they tell a digest of theirs; who has another
 * one than most loads their state. Most are more than half of those who have stepped, and of those
 * who are still to tell; one alone is never most.
 */

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

static uint32_t awaited(const vote *it)
{
    return it->present[VOTE_ASKED] + it->present[VOTE_COMMITTING];
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

/* Whether somebody to settle a dispute has been waited for in vain; if so, who differ is noted. */
/* Who is right nobody can say: each of them may be the one to blame. */
static bool vote_is_split(vote *it, uint64_t now, bool running)
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

/* What workers say. An answer counts only for the order that is out to that worker. */

/* A transfer that failed is tried again after this part of the grace, and twice that each time. */
enum { PAUSE_FRACTION = 256 };

static bool is_of_attempt(const vote *it, const tarry_sum_id *sum)
{
    return (it->phase == VOTE_OPEN || it->phase == VOTE_LOGGING) && sum_id_named(sum, &it->pending);
}

/* Whether it can be gone on from: what the log does not have any more counts as nothing. What is
 * older than the two entries that are known has to be loaded in any case. */
static bool is_of_log(const vote *it, const tarry_sum_id *last)
{
    return sum_id_same(last, &it->log[0]) ||
           (it->log[0].step > 0 && last->step + 1 == it->log[0].step &&
            sum_id_same(last, &it->log[1]));
}

/* Whether most have other parameters after the same sum. */
static bool strays(const vote *it, const vote_member *member)
{
    for (uint32_t i = 0; i < 2; i++)
        if (it->states[i] != 0 && sum_id_same(&member->last, &it->log[i]))
            return member->state != 0 && member->state != it->states[i];
    return false;
}

/* Judges its state by the log, and by the parameters of most: READY, or BEHIND. */
static void vote_judge(vote *it, uint32_t worker)
{
    vote_member *member = &it->members[worker];
    member->strays = strays(it, member);
    if (member->strays && vote_has_begun(member) && !member->stray_due) {
        member->stray_due = true;
        it->strays++;
    }
    member->has_state = is_of_log(it, &member->last) && !member->strays;
    bool ready = sum_id_same(&member->last, &it->log[0]) && !member->strays;
    vote_set_presence(it, worker, ready ? VOTE_READY : VOTE_BEHIND);
    if (ready) {
        member->tries = 0;
        vote_set_catching(it, worker, false);
    }
}

static void judge_all(vote *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->members[worker].presence == VOTE_READY)
            vote_judge(it, worker);
    it->changed = true;
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

static void has_tried(const vote *it, vote_member *member, uint64_t now, bool good)
{
    member->tries = good ? 0 : member->tries + 1;
    uint32_t doublings = member->tries < 8 ? member->tries : 8;
    member->again_ns = good ? 0 : now + ((it->grace_ns / PAUSE_FRACTION + 1) << doublings);
}

static bool takes_state(const vote_member *member, const tarry_message *said)
{
    if (said->attempt != member->awaited)
        return false;
    if (member->presence == VOTE_LOADING)
        return said->from == member->from;
    return ((member->presence == VOTE_ASKED && !member->ask_due) ||
            member->presence == VOTE_COMMITTING) &&
           said->from == TARRY_NO_WORKER;
}

static bool told_state(vote *it, uint64_t now, uint32_t worker, const tarry_message *said)
{
    vote_member *member = &it->members[worker];
    if (!takes_state(member, said))
        return false;
    vote_presence before = member->presence;
    member->last = said->last;
    member->held = said->sum;
    member->state = said->state;
    it->uncompared = true;
    vote_judge(it, worker);
    if (before == VOTE_LOADING) {
        member->load_ns = now - member->ordered_ns;
        bool later = member->has_state && said->last.step > member->ordered.step;
        has_tried(it, member, now,
                  (later || sum_id_same(&said->last, &member->ordered)) && !member->strays);
    } else if (before == VOTE_COMMITTING)
        has_tried(it, member, now, member->presence == VOTE_READY);
    if (member->presence == VOTE_READY && is_of_attempt(it, &member->held))
        vote_set_answer(it, worker, VOTE_HELD);
    return true;
}

/* The answer to an order to fetch. */
static bool told_fetch(vote *it, uint64_t now, uint32_t worker, const tarry_message *said)
{
    vote_member *member = &it->members[worker];
    bool held = said->type == TARRY_MESSAGE_HELD;
    if (said->attempt != member->awaited || said->from != member->from ||
        !sum_id_same(&said->sum, &member->ordered))
        return false;
    if (member->presence == VOTE_FETCHING) {
        vote_judge(it, worker); /* the log may have gone on meanwhile */
        has_tried(it, member, now, held);
    } else if (member->presence == VOTE_READY && member->answer == VOTE_REFETCHES) {
        vote_set_answer(it, worker, held ? VOTE_HELD : VOTE_UNFETCHED);
        member->at_fault = member->at_fault || !held;
    } else {
        return false;
    }
    if (held)
        member->held = said->sum;
    return true;
}

/* The end of its engine; unasked, it came back while that ran. */
static bool told_engine(vote *it, uint32_t worker, const tarry_message *said)
{
    vote_member *member = &it->members[worker];
    bool votes = member->presence == VOTE_READY && is_of_attempt(it, &said->sum);
    if (said->type == TARRY_MESSAGE_FAILED) {
        if (!votes || member->answer != VOTE_WAITING)
            return false;
        vote_set_answer(it, worker, VOTE_FAILED);
        member->suspects = said->from == worker ? TARRY_NO_WORKER : said->from;
        member->at_fault = true;
        it->failing = true;
        it->failed = worker;
        return true;
    }
    if (votes && (member->answer == VOTE_WAITING || member->answer == VOTE_NONE))
        vote_set_answer(it, worker, VOTE_HELD);
    else if (member->presence != VOTE_BEHIND)
        return false;
    member->held = said->sum;
    return true;
}

bool vote_told(vote *it, uint64_t now, uint32_t worker, const tarry_message *said)
{
    bool counts;
    if (said->type == TARRY_MESSAGE_STATE)
        counts = told_state(it, now, worker, said);
    else if (said->fetched)
        counts = told_fetch(it, now, worker, said);
    else
        counts = told_engine(it, worker, said);
    it->changed = it->changed || counts;
    return counts;
}

/* Those who are behind: COMMIT to who holds the last sum, FETCH of that sum if somebody has it,
 * LOAD of the state. */

/* A source hands out what it has by then, maybe the state after a later sum: what is loaded is
 * compared with that of others, whichever sum it is after. */
static bool wants_digest(const vote *it, tarry_message_type type, const tarry_sum_id *sum)
{
    if (type == TARRY_MESSAGE_LOAD)
        return it->digest_steps > 0;
    return type == TARRY_MESSAGE_COMMIT && vote_compares(it, sum);
}

static void vote_order_to(const vote_way *way, tarry_message_type type, uint32_t worker,
                          const tarry_sum_id *sum, uint32_t from)
{
    vote_member *member = &way->of->members[worker];
    const vote_order order = {
        .type = type,
        .worker = worker,
        .count = type == TARRY_MESSAGE_ASK ? member->orders : ++member->orders,
        .sum = *sum,
        .from = from,
        .digests = wants_digest(way->of, type, sum),
    };
    if (type != TARRY_MESSAGE_BREAK)
        member->awaited = order.count;
    way->give(way->user, &order);
}

/* Someone who holds the sum, or TARRY_NO_WORKER; not `other`; each time another one where there are
 * several. */
static uint32_t vote_find_holder(vote *it, const tarry_sum_id *sum, uint32_t other)
{
    for (uint32_t i = 0; i < it->workers; i++) {
        uint32_t worker = it->cursor++ % it->workers;
        const vote_member *member = &it->members[worker];
        if (worker != other && member->presence != VOTE_ABSENT && sum_id_same(&member->held, sum))
            return worker;
    }
    return TARRY_NO_WORKER;
}

/* One who is ready; `rather_not` only if there is nobody else. */
static uint32_t find_ready(vote *it, uint32_t rather_not)
{
    uint32_t found = TARRY_NO_WORKER;
    for (uint32_t i = 0; i < it->workers; i++) {
        uint32_t worker = it->cursor++ % it->workers;
        if (it->members[worker].presence != VOTE_READY)
            continue;
        found = worker;
        if (worker != rather_not)
            break;
    }
    return found;
}

static void transfer(vote *it, uint64_t now, const vote_way *way, vote_presence presence,
                     uint32_t worker, uint32_t from)
{
    vote_member *member = &it->members[worker];
    bool fetches = presence == VOTE_FETCHING;
    vote_set_presence(it, worker, presence);
    member->ordered = it->log[0];
    member->from = from;
    member->ordered_ns = now;
    vote_set_catching(it, worker, true);
    if (fetches)
        member->held = (tarry_sum_id){0};
    vote_order_to(way, fetches ? TARRY_MESSAGE_FETCH : TARRY_MESSAGE_LOAD, worker, &it->log[0],
                  from);
}

static void help_one(vote *it, uint64_t now, uint32_t worker, const vote_way *way)
{
    vote_member *member = &it->members[worker];
    const tarry_sum_id *last = &it->log[0];
    if (member->has_state && last->step > 0 && sum_id_same(&member->held, last)) {
        vote_set_presence(it, worker, VOTE_COMMITTING);
        member->ordered = *last;
        vote_order_to(way, TARRY_MESSAGE_COMMIT, worker, last, TARRY_NO_WORKER);
        return;
    }
    if (member->again_ns > now) {
        if (member->again_ns < it->again_ns)
            it->again_ns = member->again_ns;
        return;
    }
    bool ready = it->present[VOTE_READY] > 0;
    /* Once a fetch has failed, the state comes from somebody who is surely there. */
    if (member->has_state && last->step > 0 && (member->tries == 0 || !ready)) {
        uint32_t holder = vote_find_holder(it, last, worker);
        if (holder != TARRY_NO_WORKER) {
            transfer(it, now, way, VOTE_FETCHING, worker, holder);
            return;
        }
    }
    if (ready)
        transfer(it, now, way, VOTE_LOADING, worker,
                 find_ready(it, member->tries > 0 ? member->from : TARRY_NO_WORKER));
    else if (it->has_vectors && sum_id_same(&it->vectors, last))
        transfer(it, now, way, VOTE_LOADING, worker, worker);
}

/* Whether what it gets is of use only as long as no other sum is committed: nobody has sums before
 * the last one. Who steps on that sum, to catch up, is a step from taking part. */
static bool would_miss(const vote *it, const vote_member *member)
{
    bool steps = member->presence == VOTE_COMMITTING && member->catches_up;
    return ((member->presence == VOTE_FETCHING || steps) &&
            sum_id_same(&member->ordered, &it->log[0])) ||
           (member->presence == VOTE_LOADING && member->ordered.step + 1 == it->log[0].step);
}

/* Whether attempts wait for those who would lose what they are getting; as long as that takes them,
 * but not without end. */
static void vote_hold(vote *it, uint64_t now, bool running)
{
    uint64_t longest = 0;
    bool any = false;
    uint32_t catching = it->catching + it->present[VOTE_FETCHING] + it->present[VOTE_LOADING];
    for (uint32_t worker = 0; worker < it->workers && running && catching > 0; worker++) {
        const vote_member *member = &it->members[worker];
        if (!would_miss(it, member))
            continue;
        any = true;
        longest = 2 * member->load_ns > longest ? 2 * member->load_ns : longest;
    }
    if (!any)
        it->held_ns = TARRY_NEVER;
    else if (it->held_ns == TARRY_NEVER)
        it->held_ns = now;
    it->hold_ns = longest > it->grace_ns ? longest : it->grace_ns;
    it->holds = any && now - it->held_ns < it->hold_ns;
}

/* Gives those who are behind what they need, as far as somebody has it. */
static void vote_help(vote *it, uint64_t now, const vote_way *way)
{
    it->again_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < it->workers && it->present[VOTE_BEHIND] > 0; worker++)
        if (it->members[worker].presence == VOTE_BEHIND)
            help_one(it, now, worker, way);
}

/* What follows from what is known: orders, the end of an attempt, the log. */

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

/* Since when there is one alone, who is no company to itself while it carries out an order. Nobody
 * waits for others as long as nobody is there. */
static void watch_company(vote *it, uint64_t now)
{
    if (it->present[VOTE_READY] + vote_busy(it) != 1) {
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
    it->pauses = it->pauses && now < it->pause_ns;
    if (it->phase == VOTE_OPEN) {
        if (it->failing)
            break_waiting(it);
        pass_on(it, &way);
    }
    give_due(it, &way);
    if (it->phase != VOTE_RETURNING)
        vote_help(it, now, &way);
    watch_company(it, now); /* a worker that was told just now to fetch or load is company, too */
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
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        vote_presence presence = it->members[worker].presence;
        vote_set_answer(it, worker, VOTE_NONE);
        if (presence == VOTE_READY || presence == VOTE_BEHIND)
            vote_judge(it, worker);
    }
    return true;
}

/* ---- a worker's half ---- */

static voter_says refuse(tarry_reject why)
{
    return (voter_says){.rejects = true, .why = why};
}

static void answer_with(voter *it, voter_says *says, tarry_message_type type, uint32_t from)
{
    bool state = type == TARRY_MESSAGE_STATE;
    says->answers = true;
    says->answer = (tarry_message){
        .type = type,
        .epoch = it->epoch,
        .attempt = it->answers,
        .sum = state ? it->held : it->sum,
        .from = from,
        .fetched = !state && it->task == VOTER_FETCHES,
    };
    if (!state)
        return;
    says->answer.last = it->last;
    says->answer.state = it->state;
}

/* What is in progress, but a step, is in progress no more. */
static void end_task(voter *it, voter_says *says)
{
    says->abandons = it->task != VOTER_RESTS && it->task != VOTER_ENCODES;
    it->task = VOTER_RESTS;
}

static void begin_task(voter *it, voter_says *says, voter_task task, const tarry_sum_id *sum,
                       uint32_t from)
{
    it->task = task;
    it->sum = *sum;
    it->from = from;
    says->begins = true;
}

/* Another connection: transfers end, an engine goes on. */
static voter_says take_ask(voter *it, const tarry_message *ask)
{
    voter_says says = {0};
    if (ask->epoch < it->epoch || (ask->epoch == it->epoch && ask->attempt <= it->orders))
        return refuse(TARRY_REJECT_STALE);
    it->epoch = ask->epoch;
    it->orders = it->answers = ask->attempt;
    it->asked = it->task == VOTER_STEPS;
    if (it->asked)
        return says;
    if (it->task != VOTER_REDUCES)
        end_task(it, &says);
    answer_with(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

static voter_says take_break(voter *it, const tarry_message *order)
{
    voter_says says = {0};
    bool about = it->task != VOTER_RESTS && sum_id_named(&order->sum, &it->sum);
    if (!about && order->sum.digest == 0 && !sum_id_named(&order->sum, &it->held)) {
        /* It does not make that sum, and never will. */
        answer_with(it, &says, TARRY_MESSAGE_FAILED, TARRY_NO_WORKER);
        says.answer.sum = order->sum;
        says.answer.fetched = false;
        return says;
    }
    if (!about || it->task == VOTER_STEPS)
        return refuse(TARRY_REJECT_STALE);
    if (it->task == VOTER_LOADS)
        answer_with(it, &says, TARRY_MESSAGE_STATE, it->from);
    else
        answer_with(it, &says, TARRY_MESSAGE_FAILED,
                    it->task == VOTER_FETCHES ? it->from : TARRY_NO_WORKER);
    end_task(it, &says);
    return says;
}

static voter_says take_fetch(voter *it, const tarry_message *order)
{
    voter_says says = {0};
    end_task(it, &says);
    bool held = order->sum.step > 0 && sum_id_same(&it->held, &order->sum);
    begin_task(it, &says, VOTER_FETCHES, &order->sum, order->from);
    if (held) {
        says.begins = false;
        answer_with(it, &says, TARRY_MESSAGE_HELD, order->from);
        it->task = VOTER_RESTS;
        return says;
    }
    it->held = (tarry_sum_id){0};
    return says;
}

static voter_says take_load(voter *it, const tarry_message *order)
{
    voter_says says = {0};
    end_task(it, &says);
    begin_task(it, &says, VOTER_LOADS, &order->sum, order->from);
    it->digests = order->digests;
    return says;
}

static voter_says take_commit(voter *it, const tarry_message *order)
{
    voter_says says = {0};
    end_task(it, &says);
    it->digests = order->digests;
    if (order->sum.step == it->last.step + 1 && sum_id_same(&it->held, &order->sum))
        begin_task(it, &says, VOTER_STEPS, &order->sum, TARRY_NO_WORKER);
    else
        answer_with(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

voter_says voter_order(voter *it, const tarry_message *order)
{
    if (order->type == TARRY_MESSAGE_ASK)
        return take_ask(it, order);
    if (order->epoch != it->epoch || order->attempt <= it->orders)
        return refuse(TARRY_REJECT_STALE);
    it->orders = order->attempt;
    if (order->type == TARRY_MESSAGE_BREAK)
        return take_break(it, order);
    if (it->task == VOTER_STEPS)
        return refuse(TARRY_REJECT_MISPLACED);
    it->answers = order->attempt;
    if (order->type == TARRY_MESSAGE_FETCH)
        return take_fetch(it, order);
    if (order->type == TARRY_MESSAGE_LOAD)
        return take_load(it, order);
    if (order->type == TARRY_MESSAGE_COMMIT)
        return take_commit(it, order);
    return refuse(TARRY_REJECT_MISPLACED);
}

voter_says voter_signal(voter *it, const tarry_sum_id *name)
{
    voter_says says = {0};
    if (it->task == VOTER_STEPS)
        return refuse(TARRY_REJECT_MISPLACED);
    if (name->step != it->last.step + 1)
        return refuse(TARRY_REJECT_RANGE);
    end_task(it, &says);
    it->held = (tarry_sum_id){0};
    it->task = VOTER_ENCODES;
    it->sum = *name;
    return says;
}

void voter_reduce(voter *it)
{
    it->task = VOTER_REDUCES;
}

voter_says voter_finish(voter *it)
{
    voter_says says = {0};
    if (it->task == VOTER_ENCODES || it->task == VOTER_REDUCES)
        end_task(it, &says);
    return says;
}

static voter_says has_stepped(voter *it, const tarry_event *event)
{
    voter_says says = {0};
    it->task = VOTER_RESTS;
    it->last = it->sum;
    it->state = event->state;
    it->asked = false;
    answer_with(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

static voter_says has_loaded(voter *it, const tarry_event *event)
{
    voter_says says = {0};
    if (!event->failed) {
        it->last = event->sum;
        it->held = (tarry_sum_id){0};
        it->state = event->state;
    }
    it->task = VOTER_RESTS;
    answer_with(it, &says, TARRY_MESSAGE_STATE, it->from);
    return says;
}

/* An engine or a fetch. */
static voter_says has_summed(voter *it, const tarry_event *event)
{
    voter_says says = {0};
    bool fetched = it->task == VOTER_FETCHES;
    it->sum.digest = event->failed && !fetched ? 0 : event->sum.digest;
    answer_with(it, &says, event->failed ? TARRY_MESSAGE_FAILED : TARRY_MESSAGE_HELD,
                fetched         ? it->from
                : event->failed ? event->from
                                : TARRY_NO_WORKER);
    it->task = VOTER_RESTS;
    if (!event->failed)
        it->held = it->sum;
    return says;
}

voter_says voter_ended(voter *it, const tarry_event *event)
{
    static const struct {
        tarry_event_type type;
        voter_task task;
    } ends[] = {
        {TARRY_EVENT_REDUCED, VOTER_REDUCES},
        {TARRY_EVENT_FETCHED, VOTER_FETCHES},
        {TARRY_EVENT_LOADED, VOTER_LOADS},
        {TARRY_EVENT_STEPPED, VOTER_STEPS},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        if (ends[i].type != event->type)
            continue;
        bool same = sum_id_named(&event->sum, &it->sum) &&
                    (it->task == VOTER_REDUCES || event->sum.digest == it->sum.digest);
        bool later = it->task == VOTER_LOADS && !event->failed && event->sum.step > it->sum.step;
        if (ends[i].task != it->task || (!same && !later))
            break;
        if (it->task == VOTER_STEPS)
            return has_stepped(it, event);
        return it->task == VOTER_LOADS ? has_loaded(it, event) : has_summed(it, event);
    }
    return refuse(TARRY_REJECT_STALE);
}
