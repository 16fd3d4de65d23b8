/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

/* By the thread that received them: where they are of one stripe the sum is read and written once
 * for all, and as many, of 256 KiB each, are still in the core's cache. Measured: 1, 2, 6 and 8
 * take longer. */
enum { SUMMED_TOGETHER = 4 };

channel_verdict tcp_server_begin_part(void *user, peer *who, const tarry_message *message,
                                      size_t bytes, void **place)
{
    tarry_tcp_server *server = user;
    host *core = server->base.host;
    layout cut;
    if (!host_find_cut(core, message, &cut) || bytes != host_part_bytes(core, &cut, message)) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a coded part of the wrong length");
        return CHANNEL_END;
    }
    *place = NULL;
    if (!host_wants(core, who->worker, message))
        return CHANNEL_TAKE;
    tcp_member *member = &server->members[who->worker];
    if (member->buffers == TCP_STRIPES_PER_WORKER) {
        who->waiting = true;
        return CHANNEL_WAIT;
    }
    who->incoming = host_take_room(core);
    if (who->incoming == NULL)
        return CHANNEL_TAKE;
    member->buffers++;
    host_label(who->incoming, who->worker, message);
    *place = who->incoming->numbers;
    return CHANNEL_TAKE;
}

bool tcp_server_begin_shm_part(void *user, peer *who, const tarry_message *message)
{
    tarry_tcp_server *server = user;
    layout cut;
    if (!who->shm_opened || !host_find_cut(server->base.host, message, &cut)) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a coded part without its numbers");
        return false;
    }
    if (!host_wants(server->base.host, who->worker, message))
        return true;
    who->incoming = shm_part_take(who->shm, &cut, message->stripe);
    if (who->incoming != NULL)
        host_label(who->incoming, who->worker, message);
    return true;
}

void tcp_server_release_stripe(void *user, stripe *item)
{
    tarry_tcp_server *server = user;
    if (item->owner != NULL) {
        shm_part_give(item->owner, item);
        return;
    }
    tcp_member *member = &server->members[item->worker];
    peer *who = tcp_server_peer(server, item->worker);
    member->buffers--;
    if (who != NULL && who->waiting)
        peer_defer(who, PEER_RESUME);
}

void tcp_server_sum_received(tarry_tcp_server *server)
{
    host *core = server->base.host;
    if (server->settings.decode_threads > 0 || core->combining_count < SUMMED_TOGETHER)
        return;
    host_sum(core);
    host_collect(core);
}
