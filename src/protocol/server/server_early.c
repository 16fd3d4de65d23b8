/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving early: with one part and one credited copy of each chunk, what a worker sends depends on
 * nobody else. One that has nothing left to do is signalled at once: the next attempt is open from
 * the first such signal on, its parts come in and are combined while others compute, and once the
 * stop rule holds it goes on with all who have not left. Who has left computes nothing more as long
 * as the attempt stands.
 *
 * The parts of those who left are in the sum for good. So whoever is lost before its part is
 * complete breaks the attempt, and whoever is lost later keeps its credit until the attempt is
 * withdrawn.
 *
 * Where workers sum among themselves (server_vote.c), the group is settled when the attempt opens:
 * nobody joins the round any more, the sum is not there before all have begun, and whoever of them
 * is lost breaks the attempt.
 */
#include "protocol/server/server_state.h"

#include "base/memory.h"

int server_early_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (!server->settings.early)
        return TARRY_OK;
    server->early.resting = memory_allocate(allocator, server->plan->workers, sizeof(uint32_t));
    return server->early.resting == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

void server_early_start(tarry_server *server)
{
    server->early.open = false;
    server->early.resting_count = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server->members[worker].resting = false;
}

void server_early_note(tarry_server *server, uint32_t worker)
{
    server_early *early = &server->early;
    if (early->resting == NULL || server->members[worker].resting)
        return;
    server->members[worker].resting = true;
    early->resting[early->resting_count++] = worker;
}

/* An attempt that was withdrawn is not opened early again: in such a round somebody was lost. */
static bool may_open(const tarry_server *server)
{
    return server->phase == SERVER_COMPUTING && server->attempt == 0;
}

/* Whether the chunk can only come from the worker at `slot`, or from nobody. */
static bool is_needed(const tarry_server *server, uint32_t worker, uint32_t slot)
{
    uint32_t edge = server->plan->worker_offset[worker] + slot;
    uint32_t chunk = server->plan->slot_chunk[edge];
    return !bitset_test(server->done, edge) && !bitset_test(server->failed, edge) &&
           coverage_copies(server->credited, chunk) == 0 && server->possible[chunk] < 2;
}

/* Whether it has something to send, rests, and is not the last who could compute a chunk. */
static bool can_leave(const tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    if (!member_computes(member) || member->stopped || !steering_may_leave(server, worker))
        return false;
    bool credited = false;
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
        if (is_needed(server, worker, slot))
            return false;
        credited = credited || coverage_has(server->credited, worker, slot);
    }
    return credited;
}

/* Counts, or no longer counts, on the copies that the worker has not made. */
static void expect(tarry_server *server, uint32_t worker, bool left)
{
    const tarry_plan *plan = server->plan;
    server->members[worker].left = left;
    for (uint32_t edge = plan->worker_offset[worker]; edge < plan->worker_offset[worker + 1];
         edge++) {
        if (bitset_test(server->done, edge) || bitset_test(server->failed, edge))
            continue;
        server->possible[plan->slot_chunk[edge]] += left ? UINT32_MAX : 1;
        server_review_chunk(server, plan->slot_chunk[edge]);
    }
}

static void leave(tarry_server *server, uint64_t now, uint32_t worker)
{
    if (!server->early.open) {
        server->attempt_scale = 1;
        server->attempt_raised = false;
        server->attempt_start_ns = now;
        server_open(server);
        server->early.open = true;
    }
    expect(server, worker, true);
    server_signal(server, now, worker);
    steering_left(server, now, worker);
    server->result.workers_early++;
}

void server_early_leave(tarry_server *server, uint64_t now)
{
    server_early *early = &server->early;
    if (early->resting_count > 0 && !server_vote_may_leave(server))
        return; /* they stay noted */
    while (early->resting_count > 0) {
        uint32_t worker = early->resting[--early->resting_count];
        server->members[worker].resting = false;
        if (may_open(server) && can_leave(server, worker))
            leave(server, now, worker);
    }
}

bool server_early_stands(const tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    return server->early.open && server->vote == NULL && member->left && member->parts_due == 0;
}

/* Whether somebody could compute the chunk if the attempt were withdrawn. */
static bool would_be_possible(const tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t at = plan->chunk_offset[chunk]; at < plan->chunk_offset[chunk + 1]; at++) {
        uint32_t worker = plan->holder_worker[at];
        uint32_t edge = plan->worker_offset[worker] + plan->holder_position[at];
        const server_member *member = &server->members[worker];
        if (member_able(member) && member->left && !bitset_test(server->failed, edge) &&
            !bitset_test(server->done, edge))
            return true;
    }
    return false;
}

/* With TARRY_STOP_EXACT, or where nobody else is left: whether somebody who came back can't take
 * part as long as it is open. */
static bool is_held_up(const tarry_server *server)
{
    bool found = false;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        found = found || (server->members[worker].present && server->members[worker].stands);
    return found && (server->settings.stop == TARRY_STOP_EXACT || server->able == 0);
}

void server_early_review(tarry_server *server)
{
    if (!server->early.open || server->broken)
        return;
    uint32_t chunks = server->plan->chunks;
    bool needed = (server->hopeless_count > 0 || server->able == 0) &&
                  (is_held_up(server) || server_vote_waits_for_more(server));
    for (uint32_t chunk = 0; chunk < chunks && server->hopeless_count > 0 && !needed; chunk++)
        needed = bitset_test(server->hopeless, chunk) && would_be_possible(server, chunk);
    if (needed && server->vote != NULL)
        server_vote_give_up(server);
    else
        server->broken = needed;
}

/* What stood for the attempt is in no other. */
static int release(tarry_server *server)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->stands)
            continue;
        member->stands = false;
        for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
            int error = server_take_back(server, worker, slot);
            if (error != TARRY_OK)
                return error;
            server_review_chunk(server, plan->slot_chunk[plan->worker_offset[worker] + slot]);
        }
    }
    return TARRY_OK;
}

int server_early_withdraw(tarry_server *server, uint64_t now)
{
    int error = release(server);
    if (error != TARRY_OK)
        return error;
    if (server->early.open) {
        server_send_news(server,
                         now); /* of the attempt that it is still: none stops for a signal */
        server->early.open = false;
        server->attempt++;
        server->result.attempts++;
    }
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->left)
            continue;
        if (member_able(member))
            expect(server, worker, false);
        member->left = member->participant = false;
        member->parts_due = 0;
    }
    return TARRY_OK;
}
