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
 * in a few steps. Where neighbours have as much as the worker itself they do not help it, and of
 * many workers some end a chunk later for it: from time to time ways are sought again.
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

/* When the worker, of which `look` tells, would have finished one more chunk. */
static double end_after(const tarry_server *server, const steering_outlook *look, uint32_t worker,
                        uint32_t chunk)
{
    const steering *it = server->steering;
    return look->rest_ns + (it->workers[worker].queue + it->cost[chunk]) * look->pace_ns;
}

static double end_with(const tarry_server *server, double time, uint32_t worker, uint32_t chunk)
{
    steering_outlook look = steering_look(server, worker, time);
    return end_after(server, &look, worker, chunk);
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
            end = fmax(end, rest);
    }
    return end;
}

/* To a worker at which it is not planned. */
static offer best_offer(const tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    offer best = {NOBODY, 0};
    uint32_t left = it->planned[chunk];
    if (steering_missing(server, chunk) > 0)
        return (offer){NOBODY, INFINITY};
    if (left == 0)
        return (offer){NOBODY, in_progress_end(server, time, chunk)};
    for (uint32_t holder = plan->chunk_offset[chunk]; left > 0; holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (!steering_is_planned(it, worker, plan->holder_position[holder]))
            continue;
        left--;
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
    steering_outlook look = steering_look(server, worker, time);
    offer best = {NOBODY, 0};
    uint32_t slot = load;
    for (uint32_t each = 0; each < load; each++) {
        uint32_t chunk = chunk_of_edge(server, first + each);
        if (!steering_is_free(server, worker, each) || steering_wanted(server, chunk) == 0)
            continue;
        offer found = best_offer(server, time, chunk);
        if (found.end_ns > best.end_ns && found.end_ns > end_after(server, &look, worker, chunk) &&
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
    if (!member_able(&server->members[worker]))
        return;
    uint32_t load = server_load(server, worker);
    for (uint32_t i = 0; i < load && take_one(server, time, worker); i++)
        ;
    for (uint32_t i = 0; i < load && give_one(server, time, worker); i++)
        ;
}

/* ---- at its start, and from time to time ---- */

/*
 * A search for ways. Whoever a search in vain has reached stays marked until the pass is over:
 * nobody there takes a chunk and ends before the worker that was to be relieved, and still less
 * before those that end sooner and are looked at after it. So all searches in vain of a pass
 * together look at each worker once.
 */
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

/* Passes a chunk on at each step of the way to `end`. */
static void follow_way(tarry_server *server, uint32_t worker, uint32_t end)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    for (uint32_t to = end; to != worker; to = it->way_from[to]) {
        uint32_t from = it->way_from[to], edge = it->way_edge[to];
        uint32_t chunk = chunk_of_edge(server, edge), holder = plan->chunk_offset[chunk];
        while (plan->holder_worker[holder] != to)
            holder++;
        steering_unplan(server, from, edge - plan->worker_offset[from]);
        steering_plan(server, to, plan->holder_position[holder]);
        steering_mark_dirty(server, from);
        steering_mark_dirty(server, to);
    }
}

/* Makes the share of `worker` shorter by one chunk, if there is a way by which all on it end before
 * `level`. */
static bool relieve(tarry_server *server, double time, search *of, uint32_t worker, double level)
{
    steering *it = server->steering;
    uint32_t begin = of->tail;
    of->level = level;
    if (it->way_from[worker] == NOBODY)
        reach(it, of, worker, worker, 0);
    of->head = of->tail;
    uint32_t end = look_from(server, time, of, worker, 0);
    while (end == NOBODY && of->head < of->tail) {
        uint32_t from = it->way_queue[of->head++];
        end =
            look_from(server, time, of, from, it->cost[chunk_of_edge(server, it->way_edge[from])]);
    }
    if (end == NOBODY)
        return false;
    follow_way(server, worker, end);
    while (of->tail > begin)
        it->way_from[it->way_queue[--of->tail]] = NOBODY;
    return true;
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

/* All that end later than somebody could who took a chunk from them, the last first; whether any
 * share is shorter now. */
static bool relieve_once(tarry_server *server, double time, double gain)
{
    steering *it = server->steering;
    uint32_t count = 0;
    double least = least_end(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        it->way_from[worker] = NOBODY;
        double end =
            member_able(&server->members[worker]) ? steering_end_ns(server, worker, time) : 0;
        it->values[worker] = end > least && it->workers[worker].queue > 0 ? end : 0;
        count += it->values[worker] > 0;
    }
    if (count == 0)
        return false;
    steering_sort(it->values, it->by_end, server->plan->workers);
    bool changed = false;
    search of = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = it->by_end[i];
        for (;;) {
            double end = steering_end_ns(server, worker, time);
            double level = end * (1 - 1e-9) - gain * steering_pace(server, worker, time);
            if (end <= least || !relieve(server, time, &of, worker, level))
                break;
            changed = true;
        }
    }
    return changed;
}

void share_relieve(tarry_server *server, double time)
{
    const double gain = 0.25; /* of a chunk: less is not worth a message */
    relieve_once(server, time, gain);
}

void share_all(tarry_server *server, double time)
{
    enum { MOST_PASSES = 16 };
    for (uint32_t i = 0; i < server->plan->chunks; i++)
        share_cover(server, time, server->steering->by_cost[i]);
    for (int pass = 0; pass < MOST_PASSES && relieve_once(server, time, 0); pass++)
        ;
}
