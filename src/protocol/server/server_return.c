/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that is there comes back over another connection: its relay has died, say, and what was
 * on its way is lost, but not the process and its gradients. Its machine begins the round anew, in
 * a new epoch, and has to report again what it had finished: it *owes* these reports. To all others
 * nothing has happened: its credit stands, its share is its own, and an attempt goes on. It is
 * signalled for its coded part, as far as that has not come in, once it owes nothing.
 *
 * A worker that does not say in time what it has is taken at its word: what it owes is open again.
 */
#include "protocol/server/server_state.h"

#include "protocol/wire/codec.h"

static uint32_t first_edge(const tarry_server *server, uint32_t worker)
{
    return server->plan->worker_offset[worker];
}

/* Whether its machine, which forgets the round before, could not send its part of the attempt. */
static bool sends_stale(const tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    if (server->stale == NULL || server->phase != SERVER_CODING || member->parts_due == 0)
        return false;
    const uint64_t *stale =
        server->bits + server->bits_offset[worker] + bitset_words(server->shapes[worker].psi_bits);
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        if (bitset_test(stale, slot))
            return true;
    return false;
}

/* Running sums have no gradients that could be reported again, and a vote asks whoever arrives. */
static bool can_return(const tarry_server *server, uint32_t worker)
{
    return server->phase != SERVER_IDLE && server->vote == NULL && !server_keeps_credited(server) &&
           server->members[worker].present && member_able(&server->members[worker]) &&
           !sends_stale(server, worker);
}

/* What it could not compute it may try again. */
static void forget_failures(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    if (member->failed == 0)
        return;
    if (!server_has_work(server, worker))
        server->busy++;
    server->capable++;
    member->failed = 0;
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
        uint32_t edge = first_edge(server, worker) + slot;
        if (!bitset_test(server->failed, edge))
            continue;
        bitset_reset(server->failed, edge);
        server->possible[server->plan->slot_chunk[edge]]++;
        server_review_chunk(server, server->plan->slot_chunk[edge]);
        steering_reopen(server, worker, slot);
    }
}

static void owe(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    uint64_t limit = server->settings.silence_ns;
    member->owes = member->finished - member->spared;
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
        uint32_t edge = first_edge(server, worker) + slot;
        bitset_put(server->owed, edge,
                   bitset_test(server->done, edge) &&
                       server_takes_part(server, server->plan->slot_chunk[edge]));
    }
    if (member->owes == 0)
        return;
    member->return_ns = limit < TARRY_NEVER - now ? now + limit : TARRY_NEVER;
    server->return_ns =
        member->return_ns < server->return_ns ? member->return_ns : server->return_ns;
}

int server_returned(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    if (!can_return(server, worker))
        return server_joined(server, now, worker);
    if (member->epoch >= member->epoch_end)
        return server_reject(server, worker, TARRY_REJECT_EXHAUSTED);
    member->epoch++;
    member->heard_ns = now;
    member->probe_ns = TARRY_NEVER;
    member->overheard = false;
    int error = server_fill_retire(server, worker);
    if (error != TARRY_OK)
        return error;
    forget_failures(server, worker);
    owe(server, now, worker);
    member->signal_due = member->parts_due > 0;
    steering_arrived(server, worker);
    steering_returned(server, now, worker);
    uint64_t begun = member->begun_ns, ended = member->ended_ns;
    tarry_message *round = server_send_round(server, now, worker);
    member->begun_ns = begun;
    member->ended_ns = ended;
    if (server->steering == NULL)
        round->first = server_compose_owed(server, worker);
    if (member->owes == 0)
        server->settled = worker;
    return TARRY_OK;
}

const uint64_t *server_compose_owed(tarry_server *server, uint32_t worker)
{
    uint64_t *slots = server->bits + server->bits_offset[worker] +
                      bitset_words(server->shapes[worker].psi_bits) +
                      bitset_words(server->shapes[worker].slots);
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        bitset_put(slots, slot, server_owes(server, worker, slot));
    return slots;
}

void server_repay(tarry_server *server, uint64_t now, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    bitset_reset(server->owed, first_edge(server, worker) + slot);
    if (--member->owes > 0)
        return;
    member->since_ns = server_has_work(server, worker) ? now : TARRY_NEVER;
    server->settled = worker;
    steering_settled(server, now, worker);
}

int server_forgo(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    uint32_t load = server_load(server, worker);
    bool worked = server_has_work(server, worker);
    server->whole -= member->finished == load;
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t edge = first_edge(server, worker) + slot;
        bool gone = server_owes(server, worker, slot);
        int error = gone || server->settings.credit == TARRY_CREDIT_WHOLE
                        ? coverage_remove(server->credited, worker, slot)
                        : TARRY_OK;
        if (error != TARRY_OK)
            return error;
        if (gone) {
            bitset_reset(server->owed, edge);
            bitset_reset(server->done, edge);
            member->finished--;
            steering_reopen(server, worker, slot);
        }
        server_review_chunk(server, server->plan->slot_chunk[edge]);
    }
    member->owes = 0;
    server->busy += server_has_work(server, worker) && !worked;
    if (member->participant && member->parts_due > 0) {
        server->broken = true;
        member->participant = member->signal_due = false;
    }
    steering_forgone(server, now, worker);
    return TARRY_OK;
}

int server_watch_returns(tarry_server *server, uint64_t now)
{
    if (now < server->return_ns)
        return TARRY_OK;
    server->return_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (member->owes == 0)
            continue;
        int error = now >= member->return_ns ? server_forgo(server, now, worker) : TARRY_OK;
        if (error != TARRY_OK)
            return error;
        if (member->owes > 0 && member->return_ns < server->return_ns)
            server->return_ns = member->return_ns;
    }
    return TARRY_OK;
}

/* The stripes of the attempt that have not come in of it, behind all other sets. */
static const uint64_t *compose_rest(tarry_server *server, uint32_t worker)
{
    uint64_t *rest = server->bits + server->bits_offset[server->plan->workers] +
                     bitset_words(server->stripes) + bitset_words(server->plan->workers);
    bitset_clear(rest, server->stripes);
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++)
        bitset_put(rest, stripe,
                   !bitset_test(server->complete, stripe) &&
                       !bitset_test(server->received, (size_t)worker * server->stripes + stripe));
    return rest;
}

void server_signal_settled(tarry_server *server, uint64_t now)
{
    uint32_t worker = server->settled;
    server->settled = TARRY_NO_WORKER;
    if (worker == TARRY_NO_WORKER || server->phase != SERVER_CODING)
        return;
    server_member *member = &server->members[worker];
    if (!member->signal_due || member->owes > 0)
        return;
    member->signal_due = false;
    member->stopped = true;
    member->signal_ns = now;
    steering_stopped(server, now);
    server_send_signal(server, worker, compose_rest(server, worker));
}

void server_forget_owed(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->signal_due = false;
    for (uint32_t slot = 0; slot < server_load(server, worker) && member->owes > 0; slot++) {
        if (!server_owes(server, worker, slot))
            continue;
        bitset_reset(server->owed, first_edge(server, worker) + slot);
        bitset_reset(server->done, first_edge(server, worker) + slot);
        member->finished--;
        member->owes--;
    }
}

void server_forget_returns(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server_forget_owed(server, worker);
    server->return_ns = TARRY_NEVER;
    server->settled = TARRY_NO_WORKER;
}
