/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include "base/memory.h"
#include "coding/psi.h"

int server_fill_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (server->settings.fill != TARRY_FILL_STALE)
        return TARRY_OK;
    size_t words = bitset_words(plan_edges(server->plan));
    server->previous = memory_allocate(allocator, words, sizeof(uint64_t));
    if (server->previous == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = coverage_create(server->plan, server->settings.conditioning_limit, allocator,
                                &server->stale);
    return error == TARRY_OK ? coverage_create(server->plan, server->settings.conditioning_limit,
                                               allocator, &server->supposed_stale)
                             : error;
}

/* Who has arrived since has no bit in `done`, and who is lost is not asked. */
int server_fill_start(tarry_server *server)
{
    if (server->stale == NULL)
        return TARRY_OK;
    const tarry_plan *plan = server->plan;
    coverage_clear(server->stale);
    bitset_clear(server->previous, plan_edges(plan));
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        if (!server->members[worker].present || server->members[worker].behind)
            continue;
        uint32_t first = plan->worker_offset[worker];
        for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
            if (!bitset_test(server->done, first + slot))
                continue;
            bitset_set(server->previous, first + slot);
            int error = coverage_add(server->stale, worker, slot);
            if (error != TARRY_OK)
                return error;
        }
    }
    return TARRY_OK;
}

void server_fill_forget(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        bitset_reset(server->done, slot);
}

int server_fill_remove(const tarry_server *server, coverage *stale, uint32_t worker)
{
    int error = TARRY_OK;
    for (uint32_t slot = 0;
         stale != NULL && slot < server_load(server, worker) && error == TARRY_OK; slot++)
        error = coverage_remove(stale, worker, slot);
    return error;
}

int server_fill_retire(tarry_server *server, uint32_t worker)
{
    int error = server_fill_remove(server, server->stale, worker);
    if (error != TARRY_OK || server->stale == NULL)
        return error;
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        bitset_reset(server->previous, slot);
    return TARRY_OK;
}

/* The rank of a chunk's copies, with the signal's limit raised or not. */
static uint32_t rank_of(const tarry_server *server, const coverage *copies, uint32_t chunk,
                        bool raised)
{
    uint32_t parts = server->cut.parts;
    return raised ? coverage_if_raised(copies, parts)->ranks[chunk]
                  : coverage_rank(copies, parts, chunk);
}

/*
 * One round's copies of a chunk or the other's, never both: with more than one part the columns of
 * R that solve for the sum of one gradient make something else of two different ones.
 */
static bool is_filled(const tarry_server *server, const server_standing *stands, uint32_t chunk,
                      bool raised)
{
    return stands->stale != NULL && rank_of(server, stands->stale, chunk, raised) >
                                        rank_of(server, stands->credited, chunk, raised);
}

const coverage *server_fill_source(const tarry_server *server, uint32_t chunk)
{
    server_standing stands = server_stands(server);
    return is_filled(server, &stands, chunk, server->attempt_raised) ? server->stale
                                                                     : server->credited;
}

/* The chunk's rank by these copies, times its weight; 0 if it takes no part in the round. */
static uint64_t weighed_rank(const tarry_server *server, const coverage *copies, uint32_t chunk,
                             bool raised)
{
    uint64_t weight = server_takes_part(server, chunk) ? plan_weight(server->plan, chunk) : 0;
    return weight * rank_of(server, copies, chunk, raised);
}

/* The sum of weighed_rank once every chunk is there. */
static uint64_t full_rank_sum(const tarry_server *server)
{
    return coverage_wanted(server->credited) * server->cut.parts;
}

/* 0 of a round that has sampled nothing. */
static double share_of(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

static double left(const tarry_server *server, const server_standing *stands, bool raised)
{
    uint64_t full = full_rank_sum(server), ranks = 0;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        ranks += weighed_rank(
            server, is_filled(server, stands, chunk, raised) ? stands->stale : stands->credited,
            chunk, raised);
    return share_of(full - ranks, full);
}

double server_fill_left(const tarry_server *server, const server_standing *stands)
{
    return stands->stale == NULL ? coverage_expected_error(stands->credited, server->cut.parts)
                                 : left(server, stands, false);
}

void server_fill_attempt(tarry_server *server)
{
    tarry_round_result *result = &server->result;
    uint64_t full = full_rank_sum(server), fresh = 0, stale = 0;
    result->copies_coded = 0;
    result->chunks_filled = 0;
    bool raised = server->attempt_raised;
    server_standing stands = server_stands(server);
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++) {
        if (is_filled(server, &stands, chunk, raised)) {
            result->chunks_filled++;
            stale += weighed_rank(server, server->stale, chunk, raised);
        } else {
            result->copies_coded += coverage_copies(server->credited, chunk);
            fresh += weighed_rank(server, server->credited, chunk, raised);
        }
    }
    server->attempt_missing = raised ? coverage_raised_error(server->credited, server->cut.parts)
                                     : coverage_expected_error(server->credited, server->cut.parts);
    server->attempt_left = left(server, &stands, raised);
    server->attempt_filled = share_of(stale, full);
    server->attempt_scale = 1;
    server->attempt_error = share_of(full - fresh, full);
    /* E|(1/k) P g - g|^2 / E|g|^2 with a projection P of rank k: 1/k - 2 + 1. */
    if (server->settings.fill == TARRY_FILL_SCALE && fresh > 0) {
        server->attempt_scale = (double)full / (double)fresh;
        server->attempt_error = share_of(full - fresh, fresh);
    }
}

bool server_fill_view(const tarry_server *server, uint32_t worker, uint64_t *psi, uint64_t *stale)
{
    bool own = coverage_view(server->credited, worker, psi);
    if (server->stale == NULL)
        return own;
    own = false;
    bitset_clear(stale, server_load(server, worker));
    for (psi_walk at = psi_begin(server->plan, worker); psi_here(&at); psi_next(&at)) {
        bool filled = server_fill_source(server, at.chunk) == server->stale;
        if (filled)
            coverage_view_chunk(server->stale, at.chunk, psi, at.bit);
        if (bitset_test(psi, psi_own(&at))) {
            own = true;
            bitset_put(stale, at.position, filled);
        }
    }
    return own;
}
