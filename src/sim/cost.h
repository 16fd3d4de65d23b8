/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk costs a worker in virtual time. */
#ifndef SIM_COST_H
#define SIM_COST_H

#include <math.h>

#include <tarry/sim.h>

/* What the straggler makes of the seconds of the original chunk `origin` with `overhead_ns` on top;
 * chunk_ns doesn't count where the SPEC adds seconds of its own. */
static inline uint64_t straggled_ns(const tarry_plan *plan, const tarry_sim_settings *settings,
                                    uint64_t round, uint32_t worker, uint32_t position,
                                    uint32_t origin, uint64_t overhead_ns)
{
    uint32_t pieces = tarry_plan_pieces(plan);
    uint64_t base = tarry_straggler_adds(settings->straggler) ? 0 : settings->chunk_ns / pieces;
    return tarry_straggler_time_ns(settings->straggler, round, worker, position, origin, pieces,
                                   base + overhead_ns);
}

/*
 * The nanoseconds that `worker` takes in `round` for `chunk`, at `position` of its order: for each
 * part of an original chunk that it stands for, its share of the straggler's time for chunk_ns, or
 * for a piece's share of that, times the original chunk's cost; and the overhead, which every chunk
 * of the plan has in full. Where the SPEC adds seconds of its own, these are the time of a whole
 * chunk of cost 1. TARRY_NEVER where it is more than 64 bits hold.
 */
static inline uint64_t chunk_time_ns(const tarry_plan *plan, const tarry_sim_settings *settings,
                                     uint64_t round, uint32_t worker, uint32_t position,
                                     uint32_t chunk)
{
    const double *cost = settings->chunk_cost;
    const uint32_t spans = tarry_plan_span_count(plan, chunk);
    const tarry_span first = tarry_plan_span(plan, chunk, 0);
    uint64_t time =
        straggled_ns(plan, settings, round, worker, position, first.origin, settings->overhead_ns);
    bool whole = spans == 1 && first.count == first.of;
    if (time == TARRY_NEVER || (whole && (cost == NULL || cost[first.origin] == 1)))
        return time;
    double overhead = 0, total = 0;
    for (uint32_t i = 0; i < spans; i++) {
        tarry_span span = tarry_plan_span(plan, chunk, i);
        double share = (double)span.count / span.of * (cost != NULL ? cost[span.origin] : 1);
        uint64_t bare = straggled_ns(plan, settings, round, worker, position, span.origin, 0);
        total += (double)bare * share;
        if (i == 0)
            overhead = (double)(time - bare);
    }
    double scaled = rint(total) + overhead;
    return scaled < 0x1p64 ? (uint64_t)scaled : TARRY_NEVER;
}

#endif
