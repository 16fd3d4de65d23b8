/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <string.h>

#include "base/memory.h"

static bool reserve_held(tarry_tcp_server *server, peer *who, size_t size)
{
    if (who->held_size + size <= who->held_room)
        return true;
    size_t room = 2 * (who->held_size + size);
    if (room > 2 * server->settings.most_peer_bytes)
        return false;
    uint8_t *bytes = memory_grow(&server->allocator, who->held, who->held_size, room, 1);
    if (bytes == NULL)
        return false;
    who->held = bytes;
    who->held_room = room;
    return true;
}

/* A worker that turns to another plan hears of a round once it has; of one that is over, nothing.
 */
static void hold(tarry_tcp_server *server, peer *who, tarry_message_type type, const uint8_t *frame,
                 size_t size)
{
    bool stands_alone = !tcp_server_is_everywhere(server); /* no COMMIT or FETCH is before it */
    if (stands_alone && (type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_FINISH))
        who->held_size = 0;
    if (stands_alone && type == TARRY_MESSAGE_FINISH)
        return;
    if (!reserve_held(server, who, size)) {
        peer_defer(who, PEER_DROP);
        return;
    }
    memcpy(who->held + who->held_size, frame, size);
    who->held_size += size;
}

static void send_parameters(tarry_tcp_server *server, peer *who, uint64_t round)
{
    peer_drop(who, OUTGOING_PARAMETERS);
    if (who->reads_shm_parameters || tcp_server_is_everywhere(server))
        return;
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_PARAMETERS,
                             .round = round,
                             .from = server->base.host->seen,
                             .bytes = (const uint8_t *)server->parameters,
                             .size = server->base.host->numbers * sizeof(float),
                         });
}

int tcp_server_send(void *user, uint32_t worker, const tarry_message *message, uint8_t *frame,
                    size_t size)
{
    tarry_tcp_server *server = user;
    peer *who = tcp_server_peer(server, worker);
    if (who == NULL || (who->state != PEER_READY && who->state != PEER_TURNING))
        return TARRY_OK; /* the machine will hear that it is gone */
    tcp_server_note_sent(server, worker, message);
    if (message->type == TARRY_MESSAGE_ROUND) /* before any signal that names it */
        tcp_server_spread_key(server, who, message->epoch);
    if (message->type == TARRY_MESSAGE_LOAD && message->from == worker)
        tcp_server_lend(server, worker);
    frame -= WIRE_HEAD_BYTES;
    wire_message_head(size, 0, frame);
    size += WIRE_HEAD_BYTES;
    if (message->type == TARRY_MESSAGE_PROBE && who->waiting)
        peer_defer(who, PEER_HEARD); /* it can't answer while nothing is read from it */
    if (who->state == PEER_TURNING && message->type != TARRY_MESSAGE_PROBE) {
        hold(server, who, message->type, frame, size);
        return TARRY_OK;
    }
    if (who->reads_shm_parameters && message->type == TARRY_MESSAGE_ROUND)
        tcp_server_publish(server);
    if (channel_send(who->channel, frame, size) && message->type == TARRY_MESSAGE_ROUND)
        send_parameters(server, who, message->round);
    return TARRY_OK;
}

void tcp_server_send_held(tarry_tcp_server *server, peer *who)
{
    size_t at = 0;
    bool good = true;
    if (who->held_size > 0 && who->reads_shm_parameters)
        tcp_server_publish(server);
    while (at < who->held_size && good) {
        wire_head head;
        wire_head_decode(who->held + at, &head);
        size_t size = WIRE_HEAD_BYTES + head.length;
        good = channel_send(who->channel, who->held + at, size);
        at += size;
    }
    if (who->held_size > 0 && good) /* the first of them is a ROUND, where that matters */
        send_parameters(server, who, server->base.host->round.number);
    memory_release(&server->allocator, who->held);
    who->held = NULL;
    who->held_size = who->held_room = 0;
}

void tcp_server_drop_parameters(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        peer *who = tcp_server_peer(server, worker);
        if (who == NULL || tcp_server_is_everywhere(server))
            continue;
        peer_drop(who, OUTGOING_PARAMETERS);
        who->held_size = 0; /* its ROUND would be followed by them */
    }
}
