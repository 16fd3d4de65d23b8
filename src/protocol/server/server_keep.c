/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TARRY_KEEP_CREDITED: a chunk is credited to one worker, the first to report it. The others drop
 * their copies and count as finished with it all the same, until the one that was credited is gone;
 * then the chunk is open again for all of them.
 */
#include "protocol/server/server_state.h"

#include <assert.h>

bool server_voids(tarry_server *server, uint32_t worker, const tarry_message *report)
{
    uint32_t signal_term = server->members[worker].signal_term;
    if (report->term >= signal_term)
        return false;
    server->recall_term[server->plan->worker_offset[worker] + report->slot] = signal_term;
    return true;
}

int server_settle(tarry_server *server, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    uint32_t chunk = server->plan->slot_chunk[server->plan->worker_offset[worker] + slot];
    member->fate = TARRY_FATE_DROPPED;
    member->fate_slot = slot;
    server_news_due(server, worker);
    if (coverage_copies(server->credited, chunk) > 0)
        return TARRY_OK;
    member->fate = TARRY_FATE_CREDITED;
    return coverage_add(server->credited, worker, slot);
}

static void recall_at(tarry_server *server, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    uint32_t edge = server->plan->worker_offset[worker] + slot;
    if (!member_able(member) || !bitset_test(server->done, edge))
        return;
    if (member->finished == server_load(server, worker))
        server->whole--;
    if (!server_has_work(server, worker))
        server->busy++;
    bitset_reset(server->done, edge);
    steering_reopen(server, worker, slot);
    member->finished--;
    member->recalled = true;
    server->recall_term[edge] = member->term + 1;
    server_news_due(server, worker);
}

void server_recall(tarry_server *server, uint32_t worker, uint32_t slot)
{
    const tarry_plan *plan = server->plan;
    uint32_t chunk = plan->slot_chunk[plan->worker_offset[worker] + slot];
    assert(coverage_copies(server->credited, chunk) == 0);
    for (uint32_t at = plan->chunk_offset[chunk]; at < plan->chunk_offset[chunk + 1]; at++) {
        uint32_t holder = plan->holder_worker[at];
        if (holder != worker)
            recall_at(server, holder, plan->holder_position[at]);
    }
}
