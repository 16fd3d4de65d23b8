/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workers make the sum: who may connect to whom. Each that is ready is told to all, with the
 * certificate that it showed here, and so is each that has left or was revoked. One whose
 * connection is lost stays what it is to the others: sums go on while the server is away.
 */
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/wire/wire_mesh.h"
#include "runtime/tcp/mesh/paired_address.h"
#include "runtime/tcp/server/tcp_server.h"

typedef enum meeting_state { MEETING_UNKNOWN, MEETING_PRESENT, MEETING_OVER } meeting_state;

struct tcp_meeting {
    meeting_state state;
    uint32_t arrival;
    X509 *certificate;              /* NULL: plain text, or the server itself, */
    uint8_t own[WIRE_DIGEST_BYTES]; /* of whose certificate this is the fingerprint */
    uint16_t size;
    uint8_t address[WIRE_ENGINE_BYTES];
};

static uint32_t workers_of(const tarry_tcp_server *server)
{
    return server->base.host->plan->workers;
}

int tcp_server_meet_init(tarry_tcp_server *server)
{
    if (server->settings.server.sum != TARRY_SUM_EVERYWHERE)
        return TARRY_OK;
    server->meetings =
        memory_allocate(&server->allocator, (size_t)workers_of(server) + 1, sizeof(tcp_meeting));
    return server->meetings != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void tcp_server_meet_free(tarry_tcp_server *server)
{
    for (uint32_t i = 0; server->meetings != NULL && i <= server->roster.count; i++)
        X509_free(server->meetings[i].certificate);
    memory_release(&server->allocator, server->meetings);
}

static wire_member describe(const tcp_meeting *meeting, uint32_t about)
{
    wire_member member = {.worker = about, .arrival = meeting->arrival};
    if (meeting->state != MEETING_PRESENT)
        return member;
    member.present = true;
    member.size = meeting->size;
    memcpy(member.address, meeting->address, meeting->size);
    memcpy(member.fingerprint, meeting->own, sizeof(meeting->own));
    if (meeting->certificate != NULL)
        credential_fingerprint(meeting->certificate, member.fingerprint);
    return member;
}

static void tell(const tarry_tcp_server *server, peer *who, uint32_t about)
{
    const wire_member member = describe(&server->meetings[about], about);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    channel_send(who->channel, frame, wire_member_encode(&member, frame));
}

static bool is_there(const peer *who)
{
    return who != NULL && (who->state == PEER_READY || who->state == PEER_TURNING);
}

static void tell_all(const tarry_tcp_server *server, uint32_t about)
{
    for (uint32_t worker = 0; worker < workers_of(server); worker++) {
        peer *who = tcp_server_peer(server, worker);
        if (worker != about && is_there(who))
            tell(server, who, about);
    }
}

static void set(tcp_meeting *meeting, const uint8_t *reached, size_t size, X509 *certificate)
{
    X509_free(meeting->certificate);
    meeting->state = MEETING_PRESENT;
    meeting->arrival++;
    meeting->certificate = certificate;
    meeting->size = (uint16_t)size;
    memcpy(meeting->address, reached, size);
}

/* What the address of its engine does not tell is not looked at. */
bool tcp_server_sums_alike(const tarry_tcp_server *server, const peer *who, const wire_ready *ready,
                           char *why, size_t room)
{
    paired_address own, other;
    if (server->meetings == NULL || !paired_address_decode(ready->address, ready->size, &own))
        return true;
    for (uint32_t worker = 0; worker < workers_of(server); worker++) {
        const tcp_meeting *meeting = &server->meetings[worker];
        if (worker == who->worker || meeting->state != MEETING_PRESENT ||
            !is_there(tcp_server_peer(server, worker)) ||
            !paired_address_decode(meeting->address, meeting->size, &other) ||
            paired_address_alike(&own, &other))
            continue;
        char mine[PAIRED_NAME_MOST + 1], others[PAIRED_NAME_MOST + 1];
        paired_address_name(&own, mine);
        paired_address_name(&other, others);
        snprintf(why, room, "sums by the engine '%s', where the others have '%s'", mine, others);
        return false;
    }
    return true;
}

void tcp_server_meet(tarry_tcp_server *server, peer *who, const wire_ready *ready)
{
    if (server->meetings == NULL)
        return;
    X509 *certificate = channel_certificate(who->channel);
    if (certificate != NULL)
        X509_up_ref(certificate);
    set(&server->meetings[who->worker], ready->address, ready->size, certificate);
    for (uint32_t about = 0; about <= workers_of(server); about++) {
        const tcp_meeting *meeting = &server->meetings[about];
        bool here = about == workers_of(server) || is_there(tcp_server_peer(server, about));
        if (about != who->worker &&
            (meeting->state == MEETING_OVER || (meeting->state == MEETING_PRESENT && here)))
            tell(server, who, about);
    }
    tell_all(server, who->worker);
}

void tcp_server_meet_self(tarry_tcp_server *server, const uint8_t *reached, size_t size,
                          const uint8_t fingerprint[WIRE_DIGEST_BYTES])
{
    tcp_meeting *own = &server->meetings[workers_of(server)];
    set(own, reached, size, NULL);
    memcpy(own->own, fingerprint, WIRE_DIGEST_BYTES);
    tell_all(server, workers_of(server));
}

bool tcp_server_member(const tarry_tcp_server *server, uint32_t worker, wire_member *member)
{
    const tcp_meeting *meeting = &server->meetings[worker];
    if (!is_there(tcp_server_peer(server, worker)) || meeting->state != MEETING_PRESENT)
        return false;
    *member = describe(meeting, worker);
    return true;
}

void tcp_server_part_from(tarry_tcp_server *server, uint32_t worker)
{
    if (server->meetings == NULL || server->meetings[worker].state != MEETING_PRESENT)
        return;
    server->meetings[worker].state = MEETING_OVER;
    tell_all(server, worker);
}

void tcp_server_part_from_revoked(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; server->meetings != NULL && worker < workers_of(server); worker++) {
        X509 *certificate = server->meetings[worker].certificate;
        if (certificate != NULL && credential_is_revoked(server->credential, certificate))
            tcp_server_part_from(server, worker);
    }
}
