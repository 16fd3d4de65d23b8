/* SPDX-License-Identifier: Apache-2.0 */
/* What the server makes of what peers say and go through. */
#include "runtime/tcp/server/tcp_server.h"

enum { FETCHES_MOST = 32 }; /* of a peer that wait */

static uint64_t now_of(void *user)
{
    return tcp_server_now(user);
}

static void on_turned_away(void *user, uint32_t worker, const char *from, const char *why)
{
    tcp_server_notify(user, &(tarry_tcp_notice){
                                .type = TARRY_TCP_REFUSED,
                                .worker = worker,
                                .peer = from,
                                .text = why,
                            });
}

static bool on_message(void *user, peer *from, tarry_message *message)
{
    tarry_tcp_server *server = user;
    stripe *item = from->incoming;
    bool received = item != NULL && item->owner == NULL;
    from->spoke_ns = tcp_server_now(server);
    from->incoming = NULL;
    tcp_server_note_said(server, from->worker, message);
    const tarry_reject *reject = host_receive(server->base.host, from->worker, message, item);
    if (from->state == PEER_OVER ||
        !peer_count_message(from, server->base.host->round.number, reject) || from->refusal != 0)
        return false;
    if (received)
        tcp_server_sum_received(server);
    return from->state != PEER_OVER; /* what a sum led to may have ended it */
}

static bool on_fetch(void *user, peer *from, const wire_fetch *fetch)
{
    const tarry_tcp_server *server = user;
    const tarry_tcp_server_settings *settings = &server->settings;
    const void *bytes;
    size_t size;
    if (fetch->kind != WIRE_BLOB_DATA || settings->ship == NULL ||
        fetch->index >= server->base.host->plan->origins) {
        peer_refuse(from, WIRE_REFUSED_FORMAT, "asks for data that are not here");
        return false;
    }
    if (from->large.count >= FETCHES_MOST) {
        peer_refuse(from, WIRE_REFUSED_FLOOD, "asks for too much at a time");
        return false;
    }
    if (settings->ship(settings->ship_user, fetch->index, &bytes, &size) != 0) {
        peer_refuse(from, WIRE_REFUSED_DATA, "the server can't read the data of a chunk");
        return false;
    }
    if (size > TARRY_TCP_SHIP_MOST) {
        peer_refuse(from, WIRE_REFUSED_DATA, "a chunk has more data than can be shipped");
        return false;
    }
    peer_send_large(from, &(outgoing_stream){
                              .tag = OUTGOING_DATA,
                              .index = fetch->index,
                              .bytes = bytes,
                              .size = size,
                          });
    return true;
}

static void on_bye(void *user, peer *from)
{
    tarry_tcp_server *server = user;
    if (from->worker == WIRE_ANY_WORKER)
        return;
    server->members[from->worker].state = WIRE_WORKER_LEFT;
    tcp_server_part_from(server, from->worker);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_LEFT,
                                  .worker = from->worker,
                                  .peer = channel_peer(from->channel),
                              });
}

static void on_heard(void *user, peer *from, bool excused)
{
    tarry_tcp_server *server = user;
    server->roster.seats[from->worker].heard_ns = from->heard_ns;
    if (!excused && server->base.host->round.running && from->state != PEER_WELCOMED)
        peer_defer(from, PEER_HEARD);
}

static void on_alive(void *user, peer *from)
{
    host *machine = ((tarry_tcp_server *)user)->base.host;
    if (machine->members[from->worker].joined)
        host_step(machine, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = from->worker});
}

/* During a round it is the machine that looks. */
static bool on_silent(void *user, peer *from)
{
    tarry_tcp_server *server = user;
    if (server->base.host->round.running)
        return false;
    server->members[from->worker].state = WIRE_WORKER_SILENT;
    return true;
}

static void on_gone(void *user, peer *who, peer_state was)
{
    tarry_tcp_server *server = user;
    server->viewers -= was == PEER_VIEWER;
    if (who->worker != WIRE_ANY_WORKER && tcp_server_peer(server, who->worker) == who) {
        tcp_member *member = &server->members[who->worker];
        member->received += peer_received(who);
        member->sent += peer_sent(who);
        roster_leave(&server->roster, who->worker);
    }
    if (who->incoming != NULL)
        host_release(server->base.host, who->incoming);
    who->incoming = NULL;
    shm_part_retire(who->shm);
    who->shm = NULL;
    if (was == PEER_READY || was == PEER_TURNING)
        tcp_server_lose(server, who->worker, who);
}

peer_events tcp_server_peer_events(tarry_tcp_server *server)
{
    return (peer_events){
        .user = server,
        .now = now_of,
        .turned_away = on_turned_away,
        .hello = tcp_server_admit,
        .ready = tcp_server_take_ready,
        .key = tcp_server_take_key,
        .message = on_message,
        .fetch = on_fetch,
        .shared = tcp_server_take_shared,
        .bye = on_bye,
        .begin_part = tcp_server_begin_part,
        .shm_part = tcp_server_begin_shm_part,
        .heard = on_heard,
        .alive = on_alive,
        .silent = on_silent,
        .gone = on_gone,
    };
}
