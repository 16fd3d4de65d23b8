/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "base/quantile.h"
#include "runtime/tcp/server/tcp_server.h"

#include <stdio.h>
#include <string.h>

static uint64_t median_ns(const tarry_tcp_server *server)
{
    double values[TCP_REMEMBERED_ROUNDS];
    size_t count =
        server->rounds < TCP_REMEMBERED_ROUNDS ? (size_t)server->rounds : TCP_REMEMBERED_ROUNDS;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)server->durations[i];
    return count > 0 ? (uint64_t)quantile_of(values, count, 0.5) : 0;
}

static wire_worker_state state_of(const tarry_tcp_server *server, uint32_t worker)
{
    const tcp_member *member = &server->members[worker];
    const peer *who = tcp_server_peer(server, worker);
    wire_worker_state state = member->state;
    if (state == WIRE_WORKER_RECEIVING && who != NULL &&
        !outgoing_has(&who->large, OUTGOING_PARAMETERS))
        state = WIRE_WORKER_COMPUTING;
    if (state == WIRE_WORKER_COMPUTING &&
        tarry_server_finished(server->base.host->machine, worker) ==
            tarry_plan_load(server->base.host->plan, worker))
        state = WIRE_WORKER_RESTING;
    const tarry_server *machine = server->base.host->machine;
    bool steps = member->steps_on > 0 && member->steps_on == tarry_server_last_sum(machine).step;
    if (state == WIRE_WORKER_RESTING && who != NULL && !steps &&
        !tarry_server_ready(machine, worker))
        state = WIRE_WORKER_BEHIND;
    return state;
}

static void describe(tarry_tcp_server *server, uint32_t worker, wire_worker_status *out)
{
    const tcp_member *member = &server->members[worker];
    const roster_seat *seat = &server->roster.seats[worker];
    const peer *who = seat->holder;
    *out = (wire_worker_status){
        .state = state_of(server, worker),
        .near = who != NULL && who->shm_opened,
        .load = tarry_plan_load(server->base.host->plan, worker),
        .finished = tarry_server_finished(server->base.host->machine, worker),
        .arrivals = member->arrivals,
        .chunks = server->base.host->members[worker].chunks,
        .pace_ns = (uint64_t)tarry_server_pace_ns(server->base.host->machine, worker),
        .heard_ns = seat->arrivals > 0 ? tcp_server_now(server) - seat->heard_ns : TARRY_NEVER,
        .received = member->received + (who != NULL ? peer_received(who) : 0),
        .sent = member->sent + (who != NULL ? peer_sent(who) : 0),
    };
    memcpy(out->rack, member->rack, sizeof(out->rack));
}

/* A viewer that has taken what came before is never cut off for what comes next. */
static uint32_t listed_workers(const tarry_tcp_server *server)
{
    uint32_t most = wire_status_workers_in(server->settings.most_peer_bytes / 2);
    return server->base.host->plan->workers < most ? server->base.host->plan->workers : most;
}

/* Without memory viewers see nothing new, and the run goes on. */
static bool reserve(tarry_tcp_server *server)
{
    if (server->status != NULL)
        return true;
    /* The note to come may be the longest. */
    uint32_t workers = server->base.host->plan->workers;
    wire_status most = {.workers = workers < WIRE_STATUS_MOST_WORKERS ? workers
                                                                      : WIRE_STATUS_MOST_WORKERS};
    size_t size = wire_status_size(&most) + WIRE_STATUS_NOTE_BYTES;
    server->status = memory_allocate(&server->allocator, size, 1);
    server->worker_status = memory_allocate(&server->allocator, (size_t)most.workers + 1,
                                            sizeof(*server->worker_status));
    if (server->status != NULL && server->worker_status != NULL)
        return true;
    memory_release(&server->allocator, server->status);
    memory_release(&server->allocator, server->worker_status);
    server->status = NULL;
    server->worker_status = NULL;
    return false;
}

void tcp_server_send_status(tarry_tcp_server *server)
{
    const host_round *round = &server->base.host->round;
    wire_status status = {
        .done = server->noted_done + (server->rounds - server->noted_at),
        .running = round->running,
        .waiting = !round->running && atomic_load(&server->waiting),
        .elapsed_ns = round->running ? tcp_server_now(server) - round->start_ns : 0,
        .median_ns = median_ns(server),
        .rounds = server->noted_rounds,
        .exact = server->exact_rounds,
        .attempts = server->base.host->attempt,
        .sum = server->last_sum,
    };
    status.workers = listed_workers(server);
    memcpy(status.note, server->note, sizeof(status.note));
    if (!reserve(server))
        return;
    for (uint32_t worker = 0; worker < status.workers; worker++)
        describe(server, worker, &server->worker_status[worker]);
    for (uint32_t worker = status.workers; worker < server->base.host->plan->workers; worker++)
        status.others[state_of(server, worker)]++;
    wire_status_encode(&status, server->worker_status, server->status);
    for (peer *who = server->peers.first; who != NULL; who = who->after) {
        if (who->state != PEER_VIEWER || !who->drained)
            continue; /* one that is slow gets the next one */
        who->drained = false;
        channel_send(who->channel, server->status, wire_status_size(&status));
    }
}
