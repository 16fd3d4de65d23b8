/* SPDX-License-Identifier: Apache-2.0 */
/* States and sums that workers have, and a state that they get from here. The server is a member of
 * what workers are to each other, with the id past the last; it connects to one for each such
 * thing, and leaves it then. */
#include "runtime/tcp/mesh/paired_address.h"
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
    const paired_address no_engine = {.name = "", .own = NULL};
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], fingerprint[WIRE_DIGEST_BYTES] = {0};
    size_t size = 0;
    if (!tcp_server_is_everywhere(server) ||
        mesh_create(&settings, &server->mesh, NULL) != TARRY_OK)
        return;
    if (server->credential != NULL)
        credential_own_fingerprint(server->credential, fingerprint);
    paired_address_encode(&no_engine, server->mesh, bytes, &size);
    tcp_server_meet_self(server, bytes, size, fingerprint);
}

void tcp_server_close_mesh(tarry_tcp_server *server)
{
    mesh_free(server->mesh);
    server->mesh = NULL;
}

/* A connection to it is made. False: there is no way to it. */
static bool admit(tarry_tcp_server *server, const wire_member *member)
{
    return paired_address_admit(server->mesh, member->worker, member->address, member->size,
                                member->fingerprint) == TARRY_OK;
}

/* ---- what workers have ---- */

typedef struct member_request {
    uint32_t worker;
    bool there;
    wire_member member;
} member_request;

/* One that loads from here has nothing yet. */
static void find_member(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    member_request *wanted = argument;
    wanted->there = !server->members[wanted->worker].lent &&
                    tcp_server_member(server, wanted->worker, &wanted->member);
}

exchange *tcp_server_reach(tarry_runtime *runtime, uint32_t worker)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    member_request wanted = {.worker = worker};
    if (server->mesh == NULL)
        return NULL;
    tcp_server_ask(server, find_member, &wanted);
    return wanted.there && admit(server, &wanted.member) ? mesh_exchange(server->mesh) : NULL;
}

void tcp_server_leave(tarry_runtime *runtime, uint32_t worker)
{
    mesh_remove(tcp_server_of(runtime)->mesh, worker);
}

/* ---- what the server has ---- */

static void set_vectors(tarry_runtime *runtime, void *argument)
{
    tarry_server_vectors(runtime->host->machine, argument);
}

int tcp_server_vectors(tarry_runtime *runtime, const tarry_sum_id *after, const void *bytes,
                       uint64_t size)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tarry_sum_id copy = *after;
    if (server->mesh == NULL)
        return TARRY_ERROR_SYSTEM;
    mesh_lend(server->mesh, after, bytes, size);
    tcp_server_ask(server, set_vectors, &copy);
    return TARRY_OK;
}

void tcp_server_lend(tarry_tcp_server *server, uint32_t worker)
{
    wire_member member;
    if (server->mesh != NULL && tcp_server_member(server, worker, &member) &&
        admit(server, &member) && !server->members[worker].lent) {
        server->members[worker].lent = true;
        server->loans++;
    }
}

void tcp_server_lend_no_more(tarry_tcp_server *server, uint32_t worker)
{
    if (!server->members[worker].lent)
        return;
    server->members[worker].lent = false;
    server->loans--;
    mesh_remove(server->mesh, worker);
}

void tcp_server_end_loans(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; server->loans > 0 && worker < server->base.host->plan->workers;
         worker++)
        if (tarry_server_ready(server->base.host->machine, worker))
            tcp_server_lend_no_more(server, worker);
}
