/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares: every chunk is planned at as many workers as copies are wanted, such that the worker that
 * ends last ends as soon as possible. That is load balancing on related machines with restricted
 * assignment; finding the best is NP-hard for uneven chunks and a maximum flow for even ones.
 *
 * At the start of a round: greedily, the dearest chunk first, each to the holder that would end it
 * soonest; then by augmenting ways: a worker passes a chunk on, whose new holder passes on another,
 * and so on, until one takes it that still ends before the first one did. For even chunks of
 * workers of one speed this is the augmenting-path algorithm for the flow, and ends at the optimum.
 *
 * During the round single chunks pass between a worker that reports and its neighbours, the other
 * holders of its chunks (diffusion): the graph of holders is an expander, so that shares level out
 * in a few steps.
 */
#include <math.h>

#include "protocol/server/server_state.h"

#define NOBODY UINT32_MAX

static uint32_t chunk_of_edge(const tarry_server *server, uint32_t edge)
{
    return server->plan->slot_chunk[edge];
}

/* As an index among all holders. */
static uint32_t holder_of_edge(const tarry_server *server, uint32_t edge)
{
    return server->plan->chunk_offset[server->plan->slot_chunk[edge]] +
           server->plan->slot_holder[edge];
}

/* When the worker would have finished one more chunk. */
static double end_with(const tarry_server *server, double time, uint32_t worker, uint32_t chunk)
{
    const steering *it = server->steering;
    return steering_rest_ns(server, worker, time) +
           (it->workers[worker].queue + it->cost[chunk]) * steering_pace(server, worker, time) +
           it->workers[worker].tail_ns;
}

/*
 * The free holder that would finish the chunk soonest, of those whose copies would go well with the
 * others' if the holder `leaves` made none; its index among the holders, or NOBODY.
 */
static uint32_t soonest(const tarry_server *server, double time, uint32_t chunk, uint32_t leaves,
                        double *end)
{
    const tarry_plan *plan = server->plan;
    uint32_t best = NOBODY;
    *end = INFINITY;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (!steering_is_free(server, worker, plan->holder_position[holder]))
            continue;
        double found = end_with(server, time, worker, chunk);
        if (found < *end && steering_suits(server, chunk, holder, leaves)) {
            *end = found;
            best = holder;
        }
    }
    return best;
}

/* The first free holder, suitable or not; NOBODY if there is none. */
static uint32_t any_free(const tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++)
        if (steering_is_free(server, plan->holder_worker[holder], plan->holder_position[holder]))
            return holder;
    return NOBODY;
}

void share_cover(tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    while (steering_missing(server, chunk) > 0) {
        double end;
        uint32_t holder = soonest(server, time, chunk, NOBODY, &end);
        if (holder == NOBODY)
            holder = any_free(server, chunk);
        if (holder == NOBODY)
            return;
        steering_plan(server, plan->holder_worker[holder], plan->holder_position[holder]);
        steering_mark_dirty(server, plan->holder_worker[holder]);
    }
}

uint64_t steering_repeat_ns(tarry_server *server, uint64_t now, const coverage *credited)
{
    server->steering->supposed = credited;
    double time = steering_time(server, now), longest = 0;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        share_cover(server, time, chunk);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        longest = fmax(longest, steering_end_ns(server, worker, time));
    steering_unplan_all(server);
    server->steering->supposed = NULL;
    return (uint64_t)fmin(longest, 1e18);
}

/* ---- during the round ---- */

/* From whom a copy of the chunk could be taken over, and when it would end there. `from` is NOBODY
 * if copies are missing, which end never; or if all that is wanted is in progress already: then
 * another copy would be a duplicate. */
typedef struct offer {
    uint32_t from; /* index among the holders */
    double end_ns;
} offer;

/* When the last of the wanted copies that are in progress should be there. */
static double in_progress_end(const tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    uint32_t wanted = steering_wanted(server, chunk);
    double end = 0;
    /* The wanted-th smallest: counted for each, since holders are few. */
    for (uint32_t a = plan->chunk_offset[chunk]; a < plan->chunk_offset[chunk + 1]; a++) {
        uint32_t worker = plan->holder_worker[a];
        if (server->steering->workers[worker].current != plan->holder_position[a])
            continue;
        double rest = steering_rest_ns(server, worker, time);
        uint32_t before = 0;
        for (uint32_t b = plan->chunk_offset[chunk]; b < plan->chunk_offset[chunk + 1]; b++) {
            uint32_t other = plan->holder_worker[b];
            before += other != worker &&
                      server->steering->workers[other].current == plan->holder_position[b] &&
                      steering_rest_ns(server, other, time) < rest;
        }
        if (before < wanted)
            end = fmax(end, rest + server->steering->workers[worker].tail_ns);
    }
    return end;
}

static offer best_offer(const tarry_server *server, double time, uint32_t chunk, uint32_t taker)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    offer best = {NOBODY, 0};
    if (steering_missing(server, chunk) > 0)
        return (offer){NOBODY, INFINITY};
    if (it->planned[chunk] == 0)
        return (offer){NOBODY, in_progress_end(server, time, chunk)};
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (worker == taker || !steering_is_planned(it, worker, plan->holder_position[holder]))
            continue;
        double end = steering_end_ns(server, worker, time);
        if (end > best.end_ns)
            best = (offer){holder, end};
    }
    return best;
}

/* Takes over the chunk that would end last elsewhere, if it would end sooner here. */
static bool take_one(tarry_server *server, double time, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    offer best = {NOBODY, 0};
    uint32_t slot = load;
    for (uint32_t each = 0; each < load; each++) {
        uint32_t chunk = chunk_of_edge(server, first + each);
        if (!steering_is_free(server, worker, each) || steering_wanted(server, chunk) == 0)
            continue;
        offer found = best_offer(server, time, chunk, worker);
        if (found.end_ns > best.end_ns && found.end_ns > end_with(server, time, worker, chunk) &&
            (isinf(found.end_ns) ||
             steering_suits(server, chunk, holder_of_edge(server, first + each), found.from))) {
            best = found;
            slot = each;
        }
    }
    if (slot == load)
        return false;
    if (best.from != NOBODY) {
        uint32_t from = plan->holder_worker[best.from];
        steering_unplan(server, from, plan->holder_position[best.from]);
        steering_mark_dirty(server, from);
    }
    steering_plan(server, worker, slot);
    return true;
}

/* Passes a planned chunk on to where it ends soonest, if that is sooner than all ends here. */
static bool give_one(tarry_server *server, double time, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    double best = steering_end_ns(server, worker, time);
    uint32_t to = NOBODY, slot = load;
    for (uint32_t each = 0; each < load; each++) {
        if (!steering_is_planned(it, worker, each))
            continue;
        double end;
        uint32_t holder = soonest(server, time, chunk_of_edge(server, first + each),
                                  holder_of_edge(server, first + each), &end);
        if (holder != NOBODY && end < best) {
            best = end;
            to = holder;
            slot = each;
        }
    }
    if (to == NOBODY)
        return false;
    steering_unplan(server, worker, slot);
    steering_plan(server, plan->holder_worker[to], plan->holder_position[to]);
    steering_mark_dirty(server, plan->holder_worker[to]);
    return true;
}

void share_balance(tarry_server *server, double time, uint32_t worker)
{
    if (!member_computes(&server->members[worker]))
        return;
    uint32_t load = server_load(server, worker);
    for (uint32_t i = 0; i < load && take_one(server, time, worker); i++)
        ;
    for (uint32_t i = 0; i < load && give_one(server, time, worker); i++)
        ;
}

/* ---- at its start ---- */

typedef struct search {
    double level; /* when the worker ends whose share is too long */
    uint32_t head, tail;
} search;

static void reach(steering *it, search *of, uint32_t worker, uint32_t from, uint32_t edge)
{
    it->way_from[worker] = from;
    it->way_edge[worker] = edge;
    it->way_queue[of->tail++] = worker;
}

/* Looks from `worker`, reached by a chunk of cost `gained`, one step on; gives back the worker at
 * which a way ends, or NOBODY. */
static uint32_t look_from(tarry_server *server, double time, search *of, uint32_t worker,
                          double gained)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    double end = steering_end_ns(server, worker, time),
           per_cost_ns = steering_pace(server, worker, time);
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t chunk = chunk_of_edge(server, first + slot);
        if (!steering_is_planned(it, worker, slot) ||
            (gained > 0 && end + (gained - it->cost[chunk]) * per_cost_ns >= of->level))
            continue;
        for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
             holder++) {
            uint32_t next = plan->holder_worker[holder];
            if (it->way_from[next] != NOBODY ||
                !steering_is_free(server, next, plan->holder_position[holder]) ||
                !steering_suits(server, chunk, holder, holder_of_edge(server, first + slot)))
                continue;
            reach(it, of, next, worker, first + slot);
            if (end_with(server, time, next, chunk) < of->level)
                return next;
        }
    }
    return NOBODY;
}

/* Makes the share of `worker` shorter by one chunk, if there is a way. */
static bool relieve(tarry_server *server, double time, uint32_t worker)
{
    enum { MOST_REACHED = 1000 };
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    search of = {.level = steering_end_ns(server, worker, time) * (1 - 1e-9)};
    reach(it, &of, worker, worker, 0);
    uint32_t end = NOBODY;
    while (end == NOBODY && of.head < of.tail && of.tail < MOST_REACHED) {
        uint32_t from = it->way_queue[of.head++];
        double gained = from == worker ? 0 : it->cost[chunk_of_edge(server, it->way_edge[from])];
        end = look_from(server, time, &of, from, gained);
    }
    for (uint32_t to = end; to != NOBODY && to != worker; to = it->way_from[to]) {
        uint32_t from = it->way_from[to], edge = it->way_edge[to];
        uint32_t chunk = chunk_of_edge(server, edge), holder = plan->chunk_offset[chunk];
        while (plan->holder_worker[holder] != to)
            holder++;
        steering_unplan(server, from, edge - plan->worker_offset[from]);
        steering_plan(server, to, plan->holder_position[holder]);
    }
    while (of.tail > 0)
        it->way_from[it->way_queue[--of.tail]] = NOBODY;
    return end != NOBODY;
}

/* When the first worker would end that took another chunk of mean cost. */
static double least_end(const tarry_server *server, double time)
{
    double least = INFINITY;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (member_able(&server->members[worker]))
            least = fmin(least, steering_end_ns(server, worker, time) +
                                    steering_pace(server, worker, time));
    return least;
}

static void relieve_all(tarry_server *server, double time)
{
    enum { MOST_PASSES = 16 };
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server->steering->way_from[worker] = NOBODY;
    bool changed = true;
    for (int pass = 0; pass < MOST_PASSES && changed; pass++) {
        double least = least_end(server, time);
        changed = false;
        for (uint32_t worker = 0; worker < server->plan->workers; worker++)
            while (member_able(&server->members[worker]) &&
                   steering_end_ns(server, worker, time) > least && relieve(server, time, worker))
                changed = true;
    }
}

void share_all(tarry_server *server, double time)
{
    for (uint32_t i = 0; i < server->plan->chunks; i++)
        share_cover(server, time, server->steering->by_cost[i]);
    relieve_all(server, time);
}
