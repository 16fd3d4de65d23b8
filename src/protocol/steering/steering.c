/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/steering/steering.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/server/server_state.h"

/* ---- creation ---- */

static int allocate_sets(tarry_server *server, steering *made)
{
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->plan->workers;
    made->set_start = memory_allocate(allocator, (size_t)workers + 1, sizeof(*made->set_start));
    if (made->set_start == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++)
        made->set_start[worker + 1] =
            made->set_start[worker] + bitset_words(server_load(server, worker));
    made->closed = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->plans = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->first = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->barred = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->addressed = memory_allocate(allocator, 4 * made->set_start[workers], sizeof(uint64_t));
    if (made->closed == NULL || made->plans == NULL || made->first == NULL ||
        made->barred == NULL || made->addressed == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

int steering_create(tarry_server *server)
{
    if (server->settings.pick == TARRY_PICK_PLAN)
        return TARRY_OK;
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->plan->workers, chunks = server->plan->chunks;
    steering *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    server->steering = made;
    made->tick_ns = TARRY_NEVER;
    made->workers = memory_allocate(allocator, workers, sizeof(*made->workers));
    made->cost = memory_allocate(allocator, chunks, sizeof(*made->cost));
    made->by_cost = memory_allocate(allocator, chunks, sizeof(*made->by_cost));
    made->by_end = memory_allocate(allocator, workers, sizeof(*made->by_end));
    made->planned = memory_allocate(allocator, chunks, sizeof(*made->planned));
    made->computing = memory_allocate(allocator, chunks, sizeof(*made->computing));
    made->dirty = memory_allocate(allocator, workers, sizeof(*made->dirty));
    made->values = memory_allocate(allocator, workers, sizeof(*made->values));
    made->way_queue = memory_allocate(allocator, workers, sizeof(*made->way_queue));
    made->way_from = memory_allocate(allocator, workers, sizeof(*made->way_from));
    made->way_edge = memory_allocate(allocator, workers, sizeof(*made->way_edge));
    if (made->workers == NULL || made->by_end == NULL || made->cost == NULL ||
        made->by_cost == NULL || made->planned == NULL || made->computing == NULL ||
        made->dirty == NULL || made->values == NULL || made->way_queue == NULL ||
        made->way_from == NULL || made->way_edge == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        made->cost[chunk] = 1;
        made->by_cost[chunk] = chunk;
    }
    int error = chunk_costs_create(&made->learned, chunks, allocator);
    if (error == TARRY_OK)
        error = suit_create(server);
    return error == TARRY_OK ? allocate_sets(server, made) : error;
}

void steering_free(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    const tarry_allocator *allocator = &server->allocator;
    memory_release(allocator, it->addressed);
    memory_release(allocator, it->barred);
    memory_release(allocator, it->first);
    memory_release(allocator, it->plans);
    memory_release(allocator, it->closed);
    memory_release(allocator, it->set_start);
    suit_destroy(server);
    chunk_costs_destroy(&it->learned, allocator);
    memory_release(allocator, it->way_edge);
    memory_release(allocator, it->way_from);
    memory_release(allocator, it->way_queue);
    memory_release(allocator, it->values);
    memory_release(allocator, it->dirty);
    memory_release(allocator, it->computing);
    memory_release(allocator, it->planned);
    memory_release(allocator, it->by_end);
    memory_release(allocator, it->by_cost);
    memory_release(allocator, it->cost);
    memory_release(allocator, it->workers);
    memory_release(allocator, it);
}

/* ---- what follows from a change in the books ---- */

/* A worker went to a chunk that was planned for others: these need not. */
static void spare_others(tarry_server *server, uint32_t chunk, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t other = plan->holder_worker[holder], slot = plan->holder_position[holder];
        if (it->planned[chunk] + it->computing[chunk] <= steering_wanted(server, chunk))
            return;
        if (other == worker || !steering_is_planned(it, other, slot))
            continue;
        steering_unplan(server, other, slot);
        steering_mark_dirty(server, other);
    }
}

void steering_set_current(tarry_server *server, double time, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    steering_worker *of = &it->workers[worker];
    uint32_t load = server_load(server, worker), before = of->current;
    if (before == slot)
        return;
    if (before < load) {
        learn_unfinished(server, worker, time);
        it->computing[steering_chunk(server, worker, before)]--;
    }
    of->current = slot;
    of->since_ns = time;
    if (slot < load) {
        uint32_t chunk = steering_chunk(server, worker, slot);
        it->computing[chunk]++;
        if (steering_is_planned(it, worker, slot))
            steering_unplan(server, worker, slot);
        else
            spare_others(server, chunk, worker);
    }
    if (before < load)
        share_cover(server, time, steering_chunk(server, worker, before));
}

/* No copy of the chunk is wanted any more. */
static void settle(tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder], slot = plan->holder_position[holder];
        if (steering_is_planned(it, worker, slot))
            steering_unplan(server, worker, slot);
        steering_mark_dirty(server, worker);
    }
}

/* ---- what happens ---- */

static void take_off(tarry_server *server, double time, uint32_t worker)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    steering_unplan_worker(server, worker);
    if (it->workers[worker].current < load)
        it->computing[steering_chunk(server, worker, it->workers[worker].current)]--;
    it->workers[worker].current = load;
    it->workers[worker].queue = 0;
    it->workers[worker].since_ns = time;
}

static void plan_all(tarry_server *server, double time)
{
    share_all(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        steering_mark_dirty(server, worker);
}

/* What was not sampled of a worker's chunks it is not to compute. */
static void close_spared(tarry_server *server, uint32_t worker)
{
    steering *it = server->steering;
    for (uint32_t slot = 0;
         server->members[worker].spared > 0 && slot < server_load(server, worker); slot++)
        if (!server_takes_part(server, steering_chunk(server, worker, slot)))
            bitset_set(it->closed + it->set_start[worker], slot);
}

void steering_start(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    const tarry_plan *plan = server->plan;
    memset(it->closed, 0, it->set_start[plan->workers] * sizeof(*it->closed));
    memset(it->plans, 0, it->set_start[plan->workers] * sizeof(*it->plans));
    memset(it->planned, 0, plan->chunks * sizeof(*it->planned));
    memset(it->computing, 0, plan->chunks * sizeof(*it->computing));
    it->tick_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        it->workers[worker].current = server_load(server, worker);
        it->workers[worker].queue = 0;
        close_spared(server, worker);
    }
    learn_begin_round(server);
    plan_all(server, 0);
}

void steering_arrived(tarry_server *server, uint32_t worker)
{
    if (server->steering == NULL)
        return;
    steering_worker *of = &server->steering->workers[worker];
    of->sequence = 0;
}

void steering_joined(tarry_server *server, uint64_t now, uint32_t worker)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    bitset_clear(it->closed + it->set_start[worker], server_load(server, worker));
    close_spared(server, worker);
    if (server->phase != SERVER_COMPUTING)
        return;
    share_balance(server, steering_time(server, now), worker);
    steering_mark_dirty(server, worker); /* one that has to rest is looked at again */
}

void steering_retired(tarry_server *server, uint64_t now, uint32_t worker)
{
    if (server->steering == NULL)
        return;
    double time = steering_time(server, now);
    take_off(server, time, worker);
    if (server->phase != SERVER_COMPUTING)
        return;
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        share_cover(server, time, steering_chunk(server, worker, slot));
}

void steering_report(tarry_server *server, uint64_t now, uint32_t worker,
                     const tarry_message *message)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    steering_worker *of = &it->workers[worker];
    uint32_t slot = message->slot, chunk = steering_chunk(server, worker, slot);
    double time = steering_time(server, now);
    bitset_set(it->closed + it->set_start[worker], slot);
    if (!member_able(&server->members[worker]))
        return;
    if (steering_is_planned(it, worker, slot))
        steering_unplan(server, worker, slot);
    if (of->current == slot) {
        if (!message->failed)
            learn_time(server, worker, chunk, time - of->since_ns);
        it->computing[chunk]--;
        of->current = server_load(server, worker);
        of->since_ns = time;
    }
    if (server->phase != SERVER_COMPUTING)
        return;
    if (it->prior_ns == 0 || ++it->updates_seen > server->plan->workers / 4) {
        learn_prior(server, time);
        if (it->prior_ns > 0)
            share_relieve(server, time);
    }
    if (steering_wanted(server, chunk) == 0)
        settle(server, chunk);
    else
        share_cover(server, time, chunk);
    steering_word(server, now, worker, message);
}

void steering_reopen(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    if (it != NULL)
        bitset_reset(it->closed + it->set_start[worker], slot);
}

/*
 * What the worker that said `next` does once it has heard all that it was told: news that are still
 * on their way may take that chunk from it. Without this, news and words can chase each other.
 */
static uint32_t heard_next(const tarry_server *server, uint32_t worker, uint32_t next)
{
    const steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    if (next >= load || bitset_test(it->closed + it->set_start[worker], next))
        return load;
    return bitset_test(it->barred + it->set_start[worker], next)
               ? steering_told_next(server, worker, next)
               : next;
}

void steering_word(tarry_server *server, uint64_t now, uint32_t worker,
                   const tarry_message *message)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    steering_worker *of = &it->workers[worker];
    bool newer =
        message->sequence != 0 && (int16_t)(uint16_t)(message->sequence - of->sequence) > 0;
    if (message->round != server->round)
        return;
    if (newer)
        of->sequence = message->sequence;
    if (server->phase != SERVER_COMPUTING || !member_able(&server->members[worker]))
        return;
    double time = steering_time(server, now);
    if (newer)
        steering_set_current(server, time, worker, heard_next(server, worker, message->next));
    share_balance(server, time, worker);
    steering_mark_dirty(server, worker);
}

void steering_stopped(tarry_server *server, uint64_t now)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    it->tick_ns = TARRY_NEVER;
    double time = steering_time(server, now);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        steering_worker *of = &it->workers[worker];
        if (!server->members[worker].stopped)
            continue;
        if (of->current < server_load(server, worker)) {
            learn_unfinished(server, worker, time);
            learn_least(server, worker, time);
        }
        take_off(server, time, worker);
    }
}

void steering_resumed(tarry_server *server, uint64_t now)
{
    if (server->steering == NULL)
        return;
    steering_unplan_all(server);
    plan_all(server, steering_time(server, now));
}

void steering_finished(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    it->tick_ns = TARRY_NEVER;
    steering_clear_dirty(it);
    learn_end_round(server);
}

/* Workers that rest hear nothing by themselves of chunks that turn out to take longer. */
void steering_watch(tarry_server *server, uint64_t now)
{
    steering *it = server->steering;
    if (it == NULL || server->phase != SERVER_COMPUTING || now < it->tick_ns)
        return;
    it->tick_ns = TARRY_NEVER;
    double time = steering_time(server, now);
    learn_prior(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!member_able(&server->members[worker]) ||
            it->workers[worker].current < server_load(server, worker))
            continue;
        share_balance(server, time, worker);
        steering_mark_dirty(server, worker);
    }
}

uint64_t steering_next_watch(const tarry_server *server)
{
    return server->steering != NULL ? server->steering->tick_ns : TARRY_NEVER;
}
