/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "protocol/server/server_state.h"

/* What the other holders of the chunk, seen from `worker`, have and can do. */
static void look_at_others(const tarry_server *server, double time, uint32_t worker, uint32_t chunk,
                           pick_candidate *found)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t coming = 0;
    double last = 0;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t other = plan->holder_worker[holder], slot = plan->holder_position[holder];
        if (other == worker || !member_able(&server->members[other]))
            continue;
        double per_cost_ns = steering_pace(server, other, time);
        uint32_t done = server->members[other].finished + server->members[other].failed;
        found->capacity += 1 / per_cost_ns / (server_load(server, other) - done + 1);
        bool at_it = it->workers[other].current == slot;
        if (!at_it && !steering_is_planned(it, other, slot))
            continue;
        coming++;
        last = fmax(last, steering_rest_ns(server, other, time) +
                              (at_it ? 0 : per_cost_ns * it->cost[chunk]));
    }
    found->copies = coverage_copies(server->credited, chunk) + coming;
    found->wanted = coverage_copies(server->credited, chunk) + steering_wanted(server, chunk);
    found->others_ns = found->copies < found->wanted ? INFINITY : last;
}

void choose_next(tarry_server *server, double time, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    const uint64_t *plans = it->plans + it->set_start[worker];
    size_t count = 0;
    double rest = steering_rest_ns(server, worker, time);
    double per_cost_ns = steering_pace(server, worker, time);
    for (uint32_t slot = 0; slot < load; slot++) {
        if (bitset_test(plans, slot))
            steering_unplan(server, worker, slot);
        uint32_t chunk = plan->slot_chunk[first + slot];
        if (!steering_is_free(server, worker, slot) || steering_wanted(server, chunk) == 0)
            continue;
        pick_candidate *found = &it->candidates[count++];
        *found = (pick_candidate){.slot = slot, .own_ns = rest + per_cost_ns * it->cost[chunk]};
        look_at_others(server, time, worker, chunk, found);
    }
    size_t chosen = pick_rule_of(it->pick)(it->candidates, count);
    if (chosen < count)
        steering_plan(server, worker, it->candidates[chosen].slot);
}
