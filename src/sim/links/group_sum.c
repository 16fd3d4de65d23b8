/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/group_sum.h"

#include "route/route_cost.h"
#include "sim/links/direct.h"
#include "sim/links/flows.h"
#include "sim/links/grid.h"
#include "sim/links/ring.h"
#include "sim/links/tree.h"

static tarry_shape_kind kind_of(tarry_sim_way way)
{
    switch (way) {
    case TARRY_SIM_GRID:
        return TARRY_SHAPE_GRID;
    case TARRY_SIM_TREE:
        return TARRY_SHAPE_TREE;
    case TARRY_SIM_CHOSEN:
        return TARRY_SHAPE_AUTO;
    case TARRY_SIM_STAR:
    case TARRY_SIM_RING:
    case TARRY_SIM_DIRECT:
        break;
    }
    return TARRY_SHAPE_DIRECT;
}

tarry_shape group_sum_choose(const network *state, tarry_sim_way way, const group_sum *sum)
{
    const tarry_shape_kind kind = group_sum_rounds(sum) ? TARRY_SHAPE_DIRECT : kind_of(way);
    if (kind == TARRY_SHAPE_DIRECT || kind == TARRY_SHAPE_TREE)
        return (tarry_shape){kind, 0};
    const network_way *out = &state->workers[group_sum_member(sum, 0)].out;
    const route_links links = {.latency_ns = (double)state->latency_ns,
                               .bytes_per_second = 1e9 / out->ns_per_byte,
                               .message_ns = (double)out->message_ns};
    return route_choose(kind, sum->count, (double)sum->dimension, sum->parts, &links,
                        (tarry_shape){TARRY_SHAPE_AUTO, 0});
}

int group_sum_run(network *state, tarry_sim_way way, const group_sum *sum, const uint64_t *ready_ns,
                  uint64_t *done_ns, uint64_t *moved)
{
    if (way == TARRY_SIM_RING)
        return ring_group_sum(state, sum, ready_ns, done_ns, moved);
    const route of = {group_sum_choose(state, way, sum), sum->count};
    if (of.shape.kind == TARRY_SHAPE_TREE)
        return tree_sum(state, sum, ready_ns, done_ns, moved);
    if (flows_messages(&of) > FLOWS_MOST_MESSAGES)
        return flows_sum(state, sum, &of, ready_ns, done_ns, moved);
    return of.shape.kind == TARRY_SHAPE_GRID ? grid_sum(state, sum, &of, ready_ns, done_ns, moved)
                                             : direct_sum(state, sum, ready_ns, done_ns, moved);
}
