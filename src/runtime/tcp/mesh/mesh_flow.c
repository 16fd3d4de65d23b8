/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are in the sequence of blocks. A stripe is so long that no slice of it has more
 * numbers than a block. */
#include <assert.h>

#include "runtime/tcp/mesh/mesh_state.h"

static_assert((int)ROUTE_BLOCK_NUMBERS == (int)WIRE_BLOCK_NUMBERS,
              "a slice of a stripe is a block");

route_span mesh_span(const mesh_sum *sum, const route_where *where, uint32_t stripe)
{
    route_span span = route_find(where, layout_stripe_length(&sum->cut, stripe));
    span.first += layout_stripe_start(&sum->cut, stripe);
    return span;
}

uint32_t mesh_next_stripe(const mesh_sum *sum, const route_where *where, uint32_t stripe)
{
    while (stripe < sum->cut.stripes && mesh_span(sum, where, stripe).length == 0)
        stripe++;
    return stripe;
}

size_t mesh_flow_next(const mesh_sum *sum, const mesh_flow *flow, size_t *first)
{
    route_span span = mesh_span(sum, &flow->where, flow->stripe);
    *first = span.first;
    /* A coded part is padded. */
    return flow->kind == MESH_CODED ? span.length
                                    : layout_exists(&sum->cut, flow->part, span.first, span.length);
}

/* To the next block that has numbers, from this one on. */
static void settle(const mesh_sum *sum, mesh_flow *flow)
{
    size_t first;
    while (flow->stripe < sum->cut.stripes && mesh_flow_next(sum, flow, &first) == 0) {
        flow->part = 0; /* later parts have no more */
        flow->stripe++;
    }
}

void mesh_flow_begin(const mesh_sum *sum, mesh_flow *flow)
{
    flow->stripe = flow->part = 0;
    settle(sum, flow);
}

void mesh_flow_advance(const mesh_sum *sum, mesh_flow *flow)
{
    if (flow->kind == MESH_CODED || ++flow->part == sum->cut.parts) {
        flow->part = 0;
        flow->stripe++;
    }
    settle(sum, flow);
}

float *mesh_flow_window(const mesh_sum *sum, const mesh_flow *flow, uint32_t stripe, uint32_t part)
{
    size_t parts = flow->kind == MESH_PARTIAL ? sum->cut.parts : 1;
    return flow->window + (stripe % sum->window_stripes * parts + part) * flow->room;
}
