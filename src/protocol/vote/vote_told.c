/* SPDX-License-Identifier: Apache-2.0 */
/* What workers say. An answer counts only for the order that is out to that worker. */
#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

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

void vote_judge(vote *it, uint32_t worker)
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
    bool voter = member->presence == VOTE_READY && is_of_attempt(it, &said->sum);
    if (said->type == TARRY_MESSAGE_FAILED) {
        if (!voter || member->answer != VOTE_WAITING)
            return false;
        vote_set_answer(it, worker, VOTE_FAILED);
        member->suspects = said->from == worker ? TARRY_NO_WORKER : said->from;
        vote_take_piece(it, member, said);
        member->at_fault = true;
        it->failing = true;
        it->failed = worker;
        return true;
    }
    if (voter && (member->answer == VOTE_WAITING || member->answer == VOTE_NONE))
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
