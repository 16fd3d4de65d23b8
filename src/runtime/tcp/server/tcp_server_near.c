/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/tcp/server/tcp_server.h"

const char *tcp_server_near_socket(const tarry_tcp_server *server)
{
    const char *near = "";
    const listeners *all = &server->listeners;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->items[i].local && (near[0] == '\0' || !all->items[i].file))
            near = all->items[i].text + strlen("unix:");
    return near;
}

typedef struct beats {
    tarry_tcp_server *server;
    const peer *but; /* not welcomed yet: nothing may come before WELCOME; NULL: to all */
} beats;

/* The loop says that it is there while it reserves or copies memory. Workers would take the server
 * for lost otherwise. */
static void beat_all(void *user)
{
    const beats *to = user;
    uint64_t now = clock_now_ns();
    for (peer *who = to->server->peers.first; who != NULL; who = who->after)
        if (who != to->but)
            peer_beat_aside(who, now);
}

static void offer(peer *who, wire_share_kind kind, const share *memory)
{
    who->limits.shared_answers++;
    wire_share words = {.kind = kind, .bytes = memory->bytes};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    snprintf(words.name, sizeof(words.name), "%s", memory->name);
    channel_send(who->channel, frame, wire_share_encode(&words, frame));
}

void tcp_server_share(tarry_tcp_server *server, peer *who)
{
    shm_parameters *place = &server->shm_parameters;
    beats to = {server, who};
    const sealed_pause pause = {beat_all, &to};
    bool as_is = server->settings.server.compress == TARRY_COMPRESS_NONE;
    if (as_is &&
        shm_part_create(&server->base.host->cut, &pause, &server->allocator, &who->shm) != TARRY_OK)
        return; /* it takes the other way */
    if (as_is)
        offer(who, WIRE_SHARE_PART, &who->shm->memory);
    if (place->memory.memory == NULL &&
        share_create(share_parameters_bytes(server->base.host->numbers), &pause, &place->memory) !=
            TARRY_OK)
        return;
    offer(who, WIRE_SHARE_PARAMETERS, &place->memory);
}

void tcp_server_take_shared(void *user, peer *who, const wire_shared *shared)
{
    tarry_tcp_server *server = user;
    if (shared->kind == WIRE_SHARE_PARAMETERS) {
        who->reads_shm_parameters = shared->opened && server->shm_parameters.memory.memory != NULL;
        return;
    }
    if (who->shm == NULL)
        return;
    who->shm_opened = shared->opened;
    share_unlink(&who->shm->memory);
    if (shared->opened)
        return;
    shm_part_retire(who->shm);
    who->shm = NULL;
}

void tcp_server_publish(tarry_tcp_server *server)
{
    shm_parameters *place = &server->shm_parameters;
    beats to = {server, NULL};
    const sealed_pause pause = {beat_all, &to};
    if (!place->published)
        share_publish(&place->memory, server->base.host->round.number, server->parameters,
                      server->base.host->numbers, &pause);
    place->published = true;
}
