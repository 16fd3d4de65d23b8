/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

/*
 * Bytes of a message that was under way say that the worker is there, and nothing of how long it
 * takes to answer: they may have been sent before it was asked. What comes next may be the answer
 * to that probe, even if another was sent meanwhile: it is not measured either.
 */
void server_overheard(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->heard_ns = now;
    if (member->probe_ns != TARRY_NEVER) {
        member->probe_ns = TARRY_NEVER;
        member->overheard = true;
    }
}

/* The time since `from` counts for nobody's silence: the server could not have heard. */
static void forgive(tarry_server *server, uint64_t from, uint64_t now)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (member->heard_ns > from)
            continue;
        member->heard_ns += now - from;
        if (member->probe_ns != TARRY_NEVER)
            member->probe_ns += now - from;
    }
}

/* The time between two looks at the silent goes on where the round before left it: where rounds
 * are shorter, they would never be found otherwise. */
void server_wake(tarry_server *server, uint64_t now)
{
    uint64_t from = server->idle_ns, due = server->sweep_ns;
    uint64_t most = server->settings.silence_ns / SERVER_SWEEP_FRACTION;
    forgive(server, from, now);
    server->sweep_ns = now + (due > from && due - from < most ? due - from : most);
}

/*
 * A server that was itself held up hears what has come in meanwhile before it judges anyone, but
 * not twice in a row: one that is always late must still find the dead.
 */
bool server_hears_first(const tarry_server *server, uint64_t now, uint64_t due, bool *spared)
{
    *spared = !*spared && now - due > server->settings.silence_ns / SERVER_SWEEP_FRACTION;
    return *spared;
}

static int sweep(tarry_server *server, uint64_t now)
{
    uint64_t least = server->settings.silence_ns;
    uint64_t due = server->sweep_ns;
    server->sweep_ns = now + least / SERVER_SWEEP_FRACTION + 1;
    if (now - due > least / SERVER_SWEEP_FRACTION)
        forgive(server, due, now);
    if (server_hears_first(server, now, due, &server->spared_silent))
        return TARRY_OK;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        if (member->probe_ns != TARRY_NEVER) {
            uint64_t limit = recent_limit_ns(&server->answers[worker]);
            uint64_t waited = now - member->probe_ns;
            limit = limit > least ? limit : least;
            if (waited < limit)
                continue;
            server_left_out(server, worker, TARRY_ABSENT_SILENT, waited, limit);
            int error = server_lost(server, now, worker);
            if (error != TARRY_OK)
                return error;
        } else if (now - member->heard_ns >= least / SERVER_QUIET_FRACTION) {
            server_send(server, worker, TARRY_MESSAGE_PROBE);
            member->probe_ns = now;
        }
    }
    return TARRY_OK;
}

int server_watch(tarry_server *server, uint64_t now)
{
    int error = TARRY_OK;
    if (server->phase != SERVER_IDLE && now >= server->sweep_ns)
        error = sweep(server, now);
    if (error == TARRY_OK)
        steering_watch(server, now);
    if (error == TARRY_OK && server->phase == SERVER_CODING && !server->broken &&
        now >= server->late_ns)
        error = server->vote == NULL ? server_pass_over_late(server, now)
                                     : server_vote_pass_over_late(server, now);
    return error;
}

uint64_t server_next_watch(const tarry_server *server)
{
    uint64_t next = server->sweep_ns, tick = steering_next_watch(server);
    if (server->phase == SERVER_CODING && !server->broken && server->late_ns < next)
        next = server->late_ns;
    return tick < next ? tick : next;
}
