/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk costs a worker in virtual time. */
#ifndef SIM_COST_H
#define SIM_COST_H

#include <math.h>

#include <tarry/sim.h>

/*
 * The nanoseconds that `worker` takes in `round` for `chunk`, at `position` of its order: the
 * straggler's time for chunk_ns, or for a piece's share of it, times the chunk's cost, and
 * the overhead, which every piece has in full. Where the SPEC adds seconds of its own, these are
 * the time of a whole chunk of cost 1, and chunk_ns doesn't count. TARRY_NEVER where it is more
 * than 64 bits hold.
 */
static inline uint64_t chunk_time_ns(const tarry_plan *plan, const tarry_sim_settings *settings,
                                     uint64_t round, uint32_t worker, uint32_t position,
                                     uint32_t chunk)
{
    double cost = settings->chunk_cost != NULL ? settings->chunk_cost[chunk] : 1;
    uint32_t pieces = tarry_plan_pieces(plan);
    uint64_t base = tarry_straggler_adds(settings->straggler) ? 0 : settings->chunk_ns / pieces;
    uint64_t overhead = settings->overhead_ns;
    uint64_t time = tarry_straggler_time_ns(settings->straggler, round, worker, position, chunk,
                                            pieces, base + overhead);
    if (cost == 1 || time == TARRY_NEVER)
        return time;
    uint64_t bare = overhead == 0 ? time
                                  : tarry_straggler_time_ns(settings->straggler, round, worker,
                                                            position, chunk, pieces, base);
    double scaled = rint((double)bare * cost) + (double)(time - bare);
    return scaled < 0x1p64 ? (uint64_t)scaled : TARRY_NEVER;
}

#endif
