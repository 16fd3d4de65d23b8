/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include <string.h>

int server_start(tarry_server *server, uint64_t now)
{
    if (server->phase != SERVER_IDLE)
        return TARRY_ERROR_STATE;
    server_vote_start(server);
    int error = server_fill_start(server);
    if (error != TARRY_OK)
        return error;
    const tarry_plan *plan = server->plan;
    uint32_t least = plan_least_parts(plan);
    server->phase = SERVER_COMPUTING;
    server->cut = server_layout(server, least);
    server->attempt = 0;
    server->broken = false;
    server->late_ns = TARRY_NEVER;
    server->complete_count = 0;
    server->error_sum = server->filled_sum = 0;
    server->all_exact = true;
    server->result = (tarry_round_result){
        .round = server->round,
        .parts = least,
        .copies_needed = (uint64_t)plan->chunks * least,
        .start_ns = now,
        .signal_ns = TARRY_NEVER,
    };
    server->ready_ns = server->look_ns = TARRY_NEVER;
    server->looked_parts = 0;
    server_aim_parts(server);
    bitset_clear(server->complete, server->stripes);
    coverage_clear(server->credited);
    server_sample_start(server);
    memset(server->possible, 0, plan->chunks * sizeof(*server->possible));
    server->able = server->busy = server->whole = server->capable = 0;
    server_wake(server, now);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        server_member *member = &server->members[worker];
        member->excluded = member->participant = member->reported = member->late = false;
        member->put_off = false;
        member->finished = member->spared = member->failed = member->parts_due = 0;
        member->term = member->signal_term = 0;
        member->reordered = false;
        if (!member_able(member))
            continue;
        server_enlist(server, worker);
    }
    steering_start(server);
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (member_able(&server->members[worker]))
            server_send_round(server, now, worker);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        server_review_chunk(server, chunk);
    return TARRY_OK;
}
