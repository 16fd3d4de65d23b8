/* SPDX-License-Identifier: Apache-2.0 */
/* Those who are behind: COMMIT to who holds the last sum, FETCH of that sum if somebody has it,
 * LOAD of the state. */
#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

/* A source hands out what it has by then, maybe the state after a later sum: what is loaded is
 * compared with that of others, whichever sum it is after. */
static bool wants_digest(const vote *it, tarry_message_type type, const tarry_sum_id *sum)
{
    if (type == TARRY_MESSAGE_LOAD)
        return it->digest_steps > 0;
    return type == TARRY_MESSAGE_COMMIT && vote_compares(it, sum);
}

void vote_order_to(const vote_way *way, tarry_message_type type, uint32_t worker,
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

uint32_t vote_find_holder(vote *it, const tarry_sum_id *sum, uint32_t other)
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

void vote_hold(vote *it, uint64_t now, bool running)
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

void vote_help(vote *it, uint64_t now, const vote_way *way)
{
    it->again_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < it->workers && it->present[VOTE_BEHIND] > 0; worker++)
        if (it->members[worker].presence == VOTE_BEHIND)
            help_one(it, now, worker, way);
}
