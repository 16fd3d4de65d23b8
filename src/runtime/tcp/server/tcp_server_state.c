/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the state and the sum that workers have. The server is a member of what workers are to
 * each other, with the id past the last; it connects to one when it wants one, and leaves it then.
 */
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/server/tcp_server.h"

void tcp_server_open_mesh(tarry_tcp_server *server)
{
    const mesh_settings settings = {
        .listen = "127.0.0.1:0",
        .credentials = server->settings.security.credentials,
        .silence_ns = server->settings.server.silence_ns,
        .dials = true,
        .allocator = &server->allocator,
    };
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], fingerprint[WIRE_DIGEST_BYTES] = {0};
    size_t size = 0;
    if (!tcp_server_is_everywhere(server) ||
        mesh_create(&settings, &server->mesh, NULL) != TARRY_OK)
        return;
    if (direct_create(server->mesh, false, false, &server->allocator, &server->engine, NULL) !=
        TARRY_OK) {
        tcp_server_close_mesh(server);
        return;
    }
    if (server->credential != NULL)
        credential_own_fingerprint(server->credential, fingerprint);
    server->engine->methods->address(server->engine, bytes, &size);
    tcp_server_meet_self(server, bytes, size, fingerprint);
}

void tcp_server_close_mesh(tarry_tcp_server *server)
{
    if (server->engine != NULL)
        server->engine->methods->free(server->engine);
    mesh_free(server->mesh);
    server->engine = NULL;
    server->mesh = NULL;
}

typedef struct member_request {
    uint32_t worker;
    bool there;
    wire_member member;
} member_request;

static void find_member(tarry_runtime *runtime, void *argument)
{
    member_request *wanted = argument;
    wanted->there = tcp_server_member(tcp_server_of(runtime), wanted->worker, &wanted->member);
}

/* The exchange with a worker, until it is left; NULL: there is no way to it. */
static exchange *reach(tarry_tcp_server *server, uint32_t worker)
{
    member_request wanted = {.worker = worker};
    if (server->mesh == NULL)
        return NULL;
    tcp_server_ask(server, find_member, &wanted);
    if (!wanted.there || direct_admit(server->engine, worker, wanted.member.address,
                                      wanted.member.size, wanted.member.fingerprint) != TARRY_OK)
        return NULL;
    return mesh_exchange(server->mesh);
}

int tcp_server_state(tarry_runtime *runtime, uint32_t worker, uint64_t until_ns,
                     tarry_sum_id *after, uint8_t **bytes, uint64_t *size)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    exchange *own = reach(server, worker);
    if (own == NULL)
        return TARRY_ERROR_STATE;
    int error = exchange_copy_state(own, worker, until_ns, &server->base.host->allocator, after,
                                    bytes, size);
    mesh_remove(server->mesh, worker);
    return error;
}

int tcp_server_sum(tarry_runtime *runtime, uint32_t worker, uint64_t until_ns,
                   const tarry_sum_id *sum, float *into)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    exchange *own = reach(server, worker);
    if (own == NULL)
        return TARRY_ERROR_STATE;
    int error =
        exchange_copy_sum(own, worker, until_ns, sum, into, server->base.host->cut.dimension);
    mesh_remove(server->mesh, worker);
    return error;
}
