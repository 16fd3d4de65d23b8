/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "protocol/server/server_state.h"

/*
 * A set of columns whose least singular value is 1/30 of theirs loses about one and a half of the
 * seven digits of float32. The server takes copies up to its own limit all the same: this one
 * decides only who is asked.
 */
#define GOOD_CONDITIONING 30.0

int suit_create(tarry_server *server)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    if (plan->parts == 1 || server->settings.conditioning_limit <= GOOD_CONDITIONING)
        return TARRY_OK;
    it->suit_set = memory_allocate(&server->allocator, bitset_words(plan->max_replication),
                                   sizeof(*it->suit_set));
    if (it->suit_set == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return coefficients_create(plan, GOOD_CONDITIONING, &server->allocator, &it->suit);
}

void suit_destroy(tarry_server *server)
{
    coefficients_free(server->steering->suit);
    memory_release(&server->allocator, server->steering->suit_set);
}

/* Whether the holder has a copy that counts, is at one, or is to make one. */
static bool is_coming(const tarry_server *server, uint32_t holder)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t worker = plan->holder_worker[holder], slot = plan->holder_position[holder];
    return it->workers[worker].current == slot || steering_is_planned(it, worker, slot) ||
           coverage_has(steering_credited(server), worker, slot);
}

bool steering_suits(const tarry_server *server, uint32_t chunk, uint32_t joins, uint32_t leaves)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t parts = server_wanted_copies(server), count = 0;
    if (it->suit == NULL || parts == 1)
        return true;
    uint32_t first = plan->chunk_offset[chunk], past = plan->chunk_offset[chunk + 1];
    for (uint32_t holder = first; holder < past; holder++) {
        bool in = holder == joins || (holder != leaves && is_coming(server, holder));
        bitset_put(it->suit_set, holder - first, in);
        count += in;
    }
    uint32_t rank;
    return count < parts ||
           coefficients_rank(it->suit, parts, chunk, it->suit_set, 0, &rank) != TARRY_OK ||
           rank == parts;
}
