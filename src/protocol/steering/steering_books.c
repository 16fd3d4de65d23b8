/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "protocol/order.h"
#include "protocol/server/server_state.h"

/* ---- what is known ---- */

uint32_t steering_chunk(const tarry_server *server, uint32_t worker, uint32_t slot)
{
    return server->plan->slot_chunk[server->plan->worker_offset[worker] + slot];
}

double steering_time(const tarry_server *server, uint64_t now)
{
    return (double)(now - server->result.start_ns);
}

double steering_pace(const tarry_server *server, uint32_t worker, double time)
{
    const steering *it = server->steering;
    const steering_worker *of = &it->workers[worker];
    double busy = 0, elapsed = 0;
    if (of->current < server_load(server, worker)) {
        busy = it->cost[steering_chunk(server, worker, of->current)];
        elapsed = time - of->since_ns;
    }
    double per_cost_ns = pace_of(&of->pace, it->prior_ns, busy, elapsed);
    return per_cost_ns > 0 ? per_cost_ns : 1;
}

steering_outlook steering_look(const tarry_server *server, uint32_t worker, double time)
{
    const double least = 0.05; /* of its time: one that should be done may be any moment */
    const steering *it = server->steering;
    const steering_worker *of = &it->workers[worker];
    steering_outlook look = {.pace_ns = steering_pace(server, worker, time)};
    if (of->current == server_load(server, worker))
        return look;
    double cost = it->cost[steering_chunk(server, worker, of->current)];
    double whole = look.pace_ns * cost;
    double elapsed = it->prior_ns > 0 ? time - of->since_ns : 0;
    bool known = of->pace.past > 0 || of->pace.cost > 0;
    double overdue = elapsed - (known ? cost * pace_of(&of->pace, it->prior_ns, 0, 0) : 0);
    look.rest_ns = fmax(fmax(whole - elapsed, least * whole), overdue);
    return look;
}

double steering_rest_ns(const tarry_server *server, uint32_t worker, double time)
{
    return steering_look(server, worker, time).rest_ns;
}

double steering_end_ns(const tarry_server *server, uint32_t worker, double time)
{
    const steering_worker *of = &server->steering->workers[worker];
    steering_outlook look = steering_look(server, worker, time);
    return look.rest_ns + of->queue * look.pace_ns;
}

const coverage *steering_credited(const tarry_server *server)
{
    const coverage *supposed = server->steering->supposed;
    return supposed != NULL ? supposed : server->credited;
}

uint32_t steering_wanted(const tarry_server *server, uint32_t chunk)
{
    const coverage *credited = steering_credited(server);
    uint32_t parts = server_wanted_copies(server);
    if (coverage_rank(credited, parts, chunk) >= parts)
        return 0;
    uint32_t copies = coverage_copies(credited, chunk);
    return copies < parts ? parts - copies : 1; /* one more where those don't span the parts */
}

uint32_t steering_missing(const tarry_server *server, uint32_t chunk)
{
    uint32_t wanted = steering_wanted(server, chunk);
    uint32_t coming = server->steering->computing[chunk] + server->steering->planned[chunk];
    return wanted > coming ? wanted - coming : 0;
}

bool steering_is_free(const tarry_server *server, uint32_t worker, uint32_t slot)
{
    const steering *it = server->steering;
    size_t bit = it->set_start[worker] * 64 + slot;
    const server_member *member = &server->members[worker];
    /* In another attempt the overdue would not compute. */
    bool computes = member_able(member) && (it->supposed == NULL || !member->overdue);
    return computes && !bitset_test(it->closed, bit) && !bitset_test(it->plans, bit) &&
           it->workers[worker].current != slot;
}

/* ---- the books ---- */

void steering_mark_dirty(tarry_server *server, uint32_t worker)
{
    steering *it = server->steering;
    if (it->workers[worker].dirty)
        return;
    it->workers[worker].dirty = true;
    it->dirty[it->dirty_count++] = worker;
}

void steering_plan(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    uint32_t chunk = steering_chunk(server, worker, slot);
    bitset_set(it->plans + it->set_start[worker], slot);
    it->planned[chunk]++;
    it->workers[worker].queue += it->cost[chunk];
}

void steering_unplan(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    uint32_t chunk = steering_chunk(server, worker, slot);
    bitset_reset(it->plans + it->set_start[worker], slot);
    it->planned[chunk]--;
    it->workers[worker].queue = fmax(it->workers[worker].queue - it->cost[chunk], 0);
}

void steering_clear_dirty(steering *it)
{
    while (it->dirty_count > 0)
        it->workers[it->dirty[--it->dirty_count]].dirty = false;
}

void steering_unplan_worker(tarry_server *server, uint32_t worker)
{
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        if (steering_is_planned(server->steering, worker, slot))
            steering_unplan(server, worker, slot);
}

void steering_unplan_all(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        steering_unplan_worker(server, worker);
}

uint32_t steering_told_next(const tarry_server *server, uint32_t worker, uint32_t current)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    size_t words = it->set_start[worker];
    if (current < load)
        bitset_set(it->closed + words, current);
    uint32_t next = order_next(&(order_sets){
        .load = load,
        .done = it->closed + words,
        .failed = it->closed + words,
        .first = it->first + words,
        .barred = it->barred + words,
    });
    if (current < load)
        bitset_reset(it->closed + words, current);
    return next;
}
