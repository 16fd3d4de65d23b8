/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums: the credit by copy that is there says whose copy of each chunk counts, and every
 * signal says so to all, as the masks of parts cancel only in a sum of all that have one.
 */
#include "protocol/server/server_secure.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/form.h"

int server_secure_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (!server_is_secure(server))
        return TARRY_OK;
    server->holders = memory_allocate(allocator, server->plan->chunks, sizeof(*server->holders));
    server->lives = memory_allocate(allocator, server->plan->workers, sizeof(*server->lives));
    return server->holders == NULL || server->lives == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

/* The worker that is credited with the chunk. */
static uint32_t holder_of(const tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    uint32_t at = plan->chunk_offset[chunk];
    assert(coverage_copies(server->credited, chunk) == 1);
    while (!coverage_has(server->credited, plan->holder_worker[at], plan->holder_position[at]))
        at++;
    return plan->holder_worker[at];
}

void server_secure_begin(tarry_server *server)
{
    if (!server_is_secure(server))
        return;
    memset(server->lives, 0, server->plan->workers * sizeof(*server->lives));
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++) {
        uint32_t holder = holder_of(server, chunk);
        server->holders[chunk] = holder;
        server->lives[holder] = server->members[holder].epoch;
    }
}

uint64_t server_secure_bytes(const tarry_server *server, const layout *cut, uint32_t stripe)
{
    return form_secure_bytes(server->settings.secure, layout_stripe_length(cut, stripe));
}
