/* SPDX-License-Identifier: Apache-2.0 */
/* Workers behind relays are told of other relays, to which they may go when they lose theirs. */
#include <string.h>

#include "base/memory.h"
#include "protocol/relay/second_parents.h"
#include "runtime/tcp/server/tcp_server.h"

#define TELL_NS UINT64_C(1000000000)

/* Relays that have said where they are. */
typedef struct known_relays {
    const peer **who;
    second_parent *each;
    uint32_t count;
} known_relays;

uint64_t tcp_server_round_trip_ns(tarry_tcp_server *server, peer *relay)
{
    uint64_t now = tcp_server_now(server);
    if (relay->measured_ns == 0 || now - relay->measured_ns >= TELL_NS) {
        relay->round_trip_ns = channel_round_trip_ns(relay->channel);
        relay->measured_ns = now;
    }
    return relay->round_trip_ns;
}

static bool find_relays(tarry_tcp_server *server, known_relays *known)
{
    known->count = 0;
    known->who = memory_allocate(&server->allocator, server->relays, sizeof(*known->who));
    known->each = memory_allocate(&server->allocator, server->relays, sizeof(*known->each));
    if (known->who == NULL || known->each == NULL)
        return false;
    for (peer *at = server->first_relay; at != NULL; at = at->next_relay) {
        if (at->advertised == NULL)
            continue;
        known->who[known->count] = at;
        known->each[known->count++] = (second_parent){
            .lanes = lanes_count(at->lanes),
            .round_trip_ns = tcp_server_round_trip_ns(server, at),
        };
    }
    return true;
}

static void forget_relays(const tarry_tcp_server *server, known_relays *known)
{
    memory_release(&server->allocator, known->who);
    memory_release(&server->allocator, known->each);
}

static void tell(const known_relays *known, peer *who)
{
    uint32_t chosen[WIRE_PARENTS_MOST], own = 0;
    wire_parents words;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_PARENTS_BYTES];
    while (own < known->count && known->who[own] != who->relay)
        own++;
    words.count = second_parents_choose(known->each, known->count, own, who->worker, chosen);
    for (uint32_t i = 0; i < words.count; i++)
        strcpy(words.address[i], known->who[chosen[i]]->advertised);
    channel_send(who->channel, frame, wire_parents_encode(&words, frame));
}

bool tcp_server_take_advertise(void *user, peer *relay, const wire_advertise *words)
{
    tarry_tcp_server *server = user;
    size_t size = strlen(words->address) + 1;
    char *copy = memory_allocate(&server->allocator, size, 1);
    if (copy == NULL)
        return true; /* nobody is told of it */
    memcpy(copy, words->address, size);
    memory_release(&server->allocator, relay->advertised);
    relay->advertised = copy;
    server->parents_changed = true;
    return true;
}

void tcp_server_tell_parents(tarry_tcp_server *server, peer *who)
{
    known_relays known;
    if (who->relay == NULL)
        return;
    if (find_relays(server, &known) && known.count > 0)
        tell(&known, who);
    forget_relays(server, &known);
}

void tcp_server_tell_all_parents(tarry_tcp_server *server, uint64_t now)
{
    known_relays known;
    if (!server->parents_changed || now - server->parents_told_ns < TELL_NS)
        return;
    server->parents_changed = false;
    server->parents_told_ns = now;
    if (find_relays(server, &known))
        for (peer *who = server->peers.first; who != NULL; who = who->after)
            if (who->relay != NULL && (who->state == PEER_READY || who->state == PEER_TURNING))
                tell(&known, who);
    forget_relays(server, &known);
}
