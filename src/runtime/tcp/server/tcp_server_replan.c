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

static int check_plan(const tarry_plan *plan, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (next->workers != plan->workers)
        fault = "the next plan is of another number of workers";
    else if (next->origins != plan->origins || next->pieces != plan->pieces)
        fault = "the next plan is of other data";
    else if (next->parts != plan->parts || next->adaptive != plan->adaptive)
        fault = "the next plan is of another number of parts";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network server: %s", fault);
}

/* What takes the place of what the server has. */
typedef struct replacement {
    tarry_server *machine;
    codec_shape *shapes;
    uint8_t *frame;
    uint8_t *plan_bytes;
    size_t plan_size;
} replacement;

static void discard(const tarry_tcp_server *server, replacement *made)
{
    memory_release(&server->allocator, made->plan_bytes);
    memory_release(&server->allocator, made->frame);
    memory_release(&server->allocator, made->shapes);
    tarry_server_free(made->machine);
}

static int make(const tarry_tcp_server *server, const tarry_plan *next, replacement *made,
                tarry_diagnostic *diagnostic)
{
    int error = tarry_server_create(next, &server->settings.server, &server->allocator,
                                    &made->machine, diagnostic);
    if (error == TARRY_OK)
        error = tarry_server_adopt(made->machine, server->machine, diagnostic);
    if (error == TARRY_OK)
        error = tcp_server_shape(server, next, &made->shapes, &made->frame, diagnostic);
    if (error == TARRY_OK)
        error =
            tcp_server_encode_plan(server, next, &made->plan_bytes, &made->plan_size, diagnostic);
    return error;
}

static void take(tarry_tcp_server *server, replacement *made)
{
    replacement old = {
        .machine = server->machine,
        .shapes = server->shapes,
        .frame = server->frame,
        .plan_bytes = server->plan_bytes,
    };
    server->machine = made->machine;
    server->shapes = made->shapes;
    server->frame = made->frame;
    server->plan_bytes = made->plan_bytes;
    server->plan_size = made->plan_size;
    *made = old;
}

/* Whoever is about to learn the plan before learns this one as well. */
static void tell(tarry_tcp_server *server)
{
    for (peer *its = server->peers.first; its != NULL; its = its->after) {
        if (its->state != PEER_WELCOMED && its->state != PEER_READY && its->state != PEER_TURNING)
            continue;
        peer_drop(its, OUTGOING_PLAN);
        peer_send_plan(its);
        its->replanned = true;
        peer_limits_replan(its);
        its->held_size = 0;
        if (its->state == PEER_READY)
            its->state = PEER_TURNING;
    }
}

void tcp_server_turn_to(tarry_tcp_server *server, void *argument)
{
    tcp_replan *wanted = argument;
    replacement made = {0};
    wanted->error = check_plan(server->plan, wanted->next, wanted->diagnostic);
    if (wanted->error == TARRY_OK)
        wanted->error = make(server, wanted->next, &made, wanted->diagnostic);
    if (wanted->error == TARRY_OK) {
        server->plan = wanted->next;
        decoding_replan(server->sums, wanted->next);
        take(server, &made);
        tell(server);
    }
    discard(server, &made);
}
