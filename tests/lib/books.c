/* SPDX-License-Identifier: Apache-2.0 */
#include "books.h"

#include <math.h>

#include "test.h"

typedef struct count {
    uint32_t planned, computing, free;
} count;

static void of_a_worker(const tarry_server *server, uint32_t worker, count *counts)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    const steering_worker *of = &it->workers[worker];
    const server_member *member = &server->members[worker];
    uint32_t first = plan->worker_offset[worker], load = plan->worker_offset[worker + 1] - first;
    bool able = member_able(member), computes = server->phase == SERVER_COMPUTING;
    double queue = 0;
    uint32_t planned = 0;
    assert_true(of->current <= load);
    assert_false(computes && of->dirty);
    for (uint32_t slot = 0; slot < load; slot++) {
        size_t bit = it->set_start[worker] * 64 + slot;
        uint32_t chunk = plan->slot_chunk[first + slot];
        bool closed = bitset_test(it->closed, bit), plans = bitset_test(it->plans, bit);
        if (able)
            assert_int_equal(closed, bitset_test(server->done, first + slot) ||
                                         bitset_test(server->failed, first + slot));
        counts[chunk].computing += of->current == slot;
        counts[chunk].free += able && !closed && !plans && of->current != slot;
        if (!plans)
            continue;
        assert_true(able && computes && !closed && of->current != slot);
        counts[chunk].planned++;
        planned++;
        queue += it->cost[chunk];
    }
    assert_true(fabs(queue - of->queue) < 1e-9 * (1 + queue));
    if (of->current < load)
        assert_true(able && !bitset_test(it->closed, it->set_start[worker] * 64 + of->current));
    /* Whoever has something planned was told, and is taken to be at it. */
    if (planned > 0)
        assert_true(member->stopped || of->current < load);
}

void books_agree(const tarry_server *server)
{
    const steering *it = server->steering;
    if (it == NULL || server->phase == SERVER_IDLE)
        return;
    const tarry_plan *plan = server->plan;
    count *counts = checked_calloc(plan->chunks, sizeof(*counts));
    bool resting = false;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        of_a_worker(server, worker, counts);
        resting = resting || (member_able(&server->members[worker]) &&
                              plan->worker_offset[worker] < plan->worker_offset[worker + 1] &&
                              it->workers[worker].current ==
                                  plan->worker_offset[worker + 1] - plan->worker_offset[worker]);
    }
    assert_true(it->dirty_count <= (server->phase == SERVER_COMPUTING ? 0 : plan->workers));
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        assert_int_equal(it->planned[chunk], counts[chunk].planned);
        assert_int_equal(it->computing[chunk], counts[chunk].computing);
        if (server->phase != SERVER_COMPUTING)
            continue;
        /* As many copies as are wanted are planned, if anybody is left to compute them. */
        if (steering_missing(server, chunk) > 0)
            assert_int_equal(counts[chunk].free, 0);
        if (counts[chunk].planned > 0)
            assert_true(steering_wanted(server, chunk) > 0);
    }
    /* Those that rest are looked at again. */
    if (resting && server->phase == SERVER_COMPUTING)
        assert_true(it->tick_ns != TARRY_NEVER);
    free(counts);
}
