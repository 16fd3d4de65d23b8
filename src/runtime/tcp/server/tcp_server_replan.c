/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan_code.h"
#include "runtime/tcp/server/tcp_server.h"

int tcp_server_encode_plan(const tarry_tcp_server *server, const tarry_plan *plan, uint8_t **bytes,
                           size_t *size, tarry_diagnostic *diagnostic)
{
    size_t length = plan_encoded_size(plan);
    uint8_t *encoded = memory_allocate(&server->allocator, length, 1);
    if (encoded == NULL || plan_encode(plan, encoded) != TARRY_OK) {
        memory_release(&server->allocator, encoded);
        return diagnose_no_memory(diagnostic, "network server");
    }
    *bytes = encoded;
    *size = length;
    return TARRY_OK;
}

void tcp_server_send_plan(const tarry_tcp_server *server, peer *who)
{
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_PLAN,
                             .bytes = server->plan_bytes,
                             .size = server->plan_size,
                         });
}

void tcp_server_send_job(const tarry_tcp_server *server, peer *who)
{
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_JOB,
                             .bytes = server->job,
                             .size = server->settings.job_size,
                         });
}

/* Whoever is about to learn the plan before learns this one as well. */
static void tell(tarry_tcp_server *server)
{
    for (peer *who = server->peers.first; who != NULL; who = who->after) {
        if (who->state != PEER_WELCOMED && who->state != PEER_READY && who->state != PEER_TURNING)
            continue;
        peer_drop(who, OUTGOING_PLAN);
        tcp_server_send_plan(server, who);
        who->replanned = true;
        peer_limits_replan(who, tcp_server_messages_of(server, who->worker));
        who->held_size = 0;
        if (who->state == PEER_READY)
            who->state = PEER_TURNING;
    }
}

void tcp_server_turn_to(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tcp_replan *wanted = argument;
    uint8_t *bytes = NULL;
    size_t size = 0;
    wanted->error = tcp_server_encode_plan(server, wanted->next, &bytes, &size, wanted->diagnostic);
    if (wanted->error == TARRY_OK)
        wanted->error = host_replan(server->base.host, wanted->next, wanted->diagnostic);
    if (wanted->error != TARRY_OK) {
        memory_release(&server->allocator, bytes);
        return;
    }
    uint8_t *before = server->plan_bytes;
    server->plan_bytes = bytes;
    server->plan_size = size;
    tell(server);
    memory_release(&server->allocator, before);
}
