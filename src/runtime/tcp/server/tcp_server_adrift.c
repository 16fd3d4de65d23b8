/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

enum { GRACE_FRACTION = 2 }; /* of the silence that counts as absence, unless it is set */

static uint64_t grace_ns(const tarry_tcp_server *server)
{
    uint64_t set = server->settings.relay_grace_ns;
    return set > 0 ? set : server->settings.server.silence_ns / GRACE_FRACTION;
}

void tcp_server_set_adrift(tarry_tcp_server *server, const peer *who)
{
    host *core = server->base.host;
    uint64_t now = tcp_server_now(server);
    server->members[who->worker].adrift_ns = now;
    server->adrift++;
    roster_keep(&server->roster, who->worker, now + grace_ns(server));
    /* It is not to be found silent before its time is over. */
    if (core->round.running && core->members[who->worker].joined)
        host_step(core, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = who->worker});
}

bool tcp_server_end_drift(tarry_tcp_server *server, uint32_t worker)
{
    tcp_member *member = &server->members[worker];
    bool was = member->adrift_ns != 0;
    server->adrift -= was;
    member->adrift_ns = 0;
    return was;
}

void tcp_server_lose_adrift(tarry_tcp_server *server, uint64_t now)
{
    uint64_t grace = grace_ns(server);
    for (uint32_t worker = 0; server->adrift > 0 && worker < server->roster.count; worker++) {
        uint64_t since = server->members[worker].adrift_ns;
        if (since != 0 && now - since >= grace && tcp_server_end_drift(server, worker))
            tcp_server_lose(server, worker, NULL);
    }
}
