/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding up, stripe by stripe (route/route.h). An own slice of a stripe is decoded once the coded
 * parts of its leaves are in, straight into the sum's place; partial sums of inner children are
 * added to it there, piece by piece, and the result goes to the parent, or is final and goes back
 * down: to inner children at once, to leaves when all of the slice is final. What comes from the
 * parent takes the place of what was sent there.
 */
#include <assert.h>
#include <string.h>

#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

/* ---- out ---- */

static void on_released(void *user, void *owner)
{
    mesh *self = owner;
    (void)user;
    self->sum.loads--;
    mesh_pace_moves(&self->sum.pace, clock_now_ns());
    mesh_reduce_look_whether_done(self);
}

/* False: the connection is over, as is told by and by. */
static bool send_block(mesh *self, mesh_member *to, const wire_block *block, const void *numbers)
{
    mesh_sum *sum = &self->sum;
    uint8_t prefix[WIRE_HEAD_BYTES + LAYOUT_BLOCK];
    size_t size = wire_block_encode(block, prefix);
    const channel_load load = {
        .bytes = numbers,
        .size = block->bytes,
        .tag = MESH_TAG_SUM,
        .released = on_released,
        .owner = self,
    };
    if (!channel_send_load(to->link->channel, prefix, size, &load))
        return false;
    sum->loads++;
    sum->moved += load.size;
    return true;
}

/* Who can be sent something; NULL: it has gone. */
static mesh_member *reached(const mesh_sum *sum, uint32_t place)
{
    mesh_member *member = sum->members[place];
    return member != NULL && mesh_is_linked(member) ? member : NULL;
}

static wire_block block_of(const mesh_sum *sum, wire_block_kind kind, uint32_t part,
                           route_span span)
{
    const compress_form form = mesh_form_of(sum, kind, span);
    return (wire_block){
        .name = sum->asked.name,
        .kind = kind,
        .part = part,
        .first = span.first,
        .count = span.length,
        .form = form.kind,
        .bytes = compress_bytes(form, span.length),
    };
}

/* One part of a span of what is in the sum's place. */
static void send_part(mesh *self, uint32_t place, wire_block_kind kind, route_span span,
                      uint32_t part)
{
    const mesh_sum *sum = &self->sum;
    mesh_member *to = reached(sum, place);
    span.length = layout_exists(&sum->cut, part, span.first, span.length);
    const wire_block block = block_of(sum, kind, part, span);
    if (to != NULL && block.count > 0)
        send_block(self, to, &block, sum->asked.sum + part * sum->stride + span.first);
}

/* A span of an own slice that is final, in its form where it has one. */
static void send_sum(mesh *self, uint32_t place, const mesh_slice *slice, route_span span)
{
    const mesh_sum *sum = &self->sum;
    mesh_member *to = reached(sum, place);
    if (!sum_form_rounds(&sum->forms.of, TARRY_WAY_DOWN)) {
        for (uint32_t part = 0; part < sum->cut.parts; part++)
            send_part(self, place, WIRE_BLOCK_SUM, span, part);
    } else if (to != NULL) {
        const wire_block block = block_of(sum, WIRE_BLOCK_SUM, 0, span);
        send_block(self, to, &block, slice->unsent);
    }
}

/* ---- coded parts ---- */

/* Stripes before it are decoded here, in all own slices. */
static uint32_t decoded_everywhere(const mesh_sum *sum)
{
    uint32_t stripe = sum->cut.stripes;
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        const mesh_slice *slice = &sum->route.slices[i];
        if (slice->owner == sum->place && slice->decoded < stripe)
            stripe = slice->decoded;
    }
    return stripe;
}

/* The own coded part, in the slice of one who has begun, as far as that may go now. */
static void send_coded(mesh *self, mesh_slice *slice, uint64_t before)
{
    const mesh_sum *sum = &self->sum;
    mesh_member *to = reached(sum, slice->owner);
    for (; to != NULL && slice->sent < sum->cut.stripes && slice->sent < before; slice->sent++) {
        route_span span = mesh_span(sum, &slice->where, slice->sent);
        const wire_block block = block_of(sum, WIRE_BLOCK_PART, 0, span);
        if (span.length == 0)
            continue;
        if (!send_block(self, to, &block, mesh_form_pack(sum, slice, span)))
            return;
        mesh_form_packed(sum, slice, span);
    }
}

/* To one, or (ROUTE_NOBODY) to all who have begun. */
static void send_coded_to(mesh *self, uint32_t place)
{
    mesh_sum *sum = &self->sum;
    uint64_t before = (uint64_t)decoded_everywhere(sum) + sum->ahead;
    uint32_t count = sum->route.slice_count;
    if (!sum->has[sum->place])
        return;
    for (uint32_t k = 0; k < count; k++) { /* not all to the same one first */
        mesh_slice *slice = &sum->route.slices[(sum->place + k) % count];
        if (slice->owner != sum->place && sum->intake[slice->owner].begun &&
            (place == ROUTE_NOBODY || place == slice->owner))
            send_coded(self, slice, before);
    }
}

void mesh_reduce_send_coded(mesh *self, uint32_t place)
{
    send_coded_to(self, place);
}

/* ---- what is final ---- */

static void tell_came(const mesh_sum *sum, uint32_t part, route_span span)
{
    size_t count = layout_exists(&sum->cut, part, span.first, span.length);
    if (sum->asked.came != NULL && count > 0)
        sum->asked.came(sum->asked.user, part * sum->stride + sum->asked.whole + span.first, count);
}

/* Stripes of the piece before it are final. */
static uint32_t piece_final(const mesh_sum *sum, const mesh_piece *piece)
{
    return piece->parent == ROUTE_NOBODY ? piece->done : sum->route.flows[piece->sum].stripe;
}

/* What has become final of an own slice goes to its leaves. */
static void send_final(mesh *self, mesh_slice *slice)
{
    mesh_sum *sum = &self->sum;
    uint32_t before = sum->cut.stripes;
    for (uint32_t k = 0; k < slice->pieces; k++) {
        uint32_t final = piece_final(sum, &sum->route.pieces[slice->first_piece + k]);
        before = final < before ? final : before;
    }
    for (; slice->final < before;
         slice->final = mesh_next_stripe(sum, &slice->where, slice->final + 1)) {
        route_span span = mesh_span(sum, &slice->where, slice->final);
        for (uint32_t k = 1; k < sum->count; k++) { /* not all to the same one first */
            uint32_t place = (sum->place + k) % sum->count;
            if (sum->intake[place].coded[slice->number] != MESH_NO_FLOW)
                send_sum(self, place, slice, span);
        }
        if (sum_form_rounds(&sum->forms.of, TARRY_WAY_DOWN))
            slice->unsent += block_of(sum, WIRE_BLOCK_SUM, 0, span).bytes;
    }
}

static uint32_t slice_final(const mesh_sum *sum, const mesh_slice *slice)
{
    return slice->owner == sum->place ? slice->final : sum->route.flows[slice->sum].stripe;
}

/* Stripes before it are final. */
static uint32_t final_everywhere(const mesh_sum *sum)
{
    uint32_t stripe = sum->cut.stripes;
    for (uint32_t i = 0; i < sum->route.slice_count && stripe > 0; i++) {
        uint32_t final = slice_final(sum, &sum->route.slices[i]);
        stripe = final < stripe ? final : stripe;
    }
    return stripe;
}

size_t mesh_reduce_whole(const mesh_sum *sum)
{
    uint32_t stripe = final_everywhere(sum);
    return sum->asked.whole + (stripe == sum->cut.stripes ? sum->cut.part_length
                                                          : layout_stripe_start(&sum->cut, stripe));
}

void mesh_reduce_look_whether_done(mesh *self)
{
    mesh_sum *sum = &self->sum;
    if (!sum->runs || sum->loads > 0 || sum->begun < sum->count ||
        final_everywhere(sum) < sum->cut.stripes)
        return;
    sum->runs = false;
    mesh_times_end(sum);
    mesh_engine_is(self, TARRY_ENGINE_DONE, TARRY_ENGINE_NOBODY, "");
}

/* ---- pieces ---- */

/* Whether the partial sums of all inner children are in. */
static bool is_ready(const mesh_sum *sum, const mesh_piece *piece)
{
    const mesh_slice *slice = &sum->route.slices[piece->slice];
    if (piece->done >= slice->decoded)
        return false;
    for (uint32_t i = 0; i < piece->inner_count; i++)
        if (sum->route.flows[piece->inners[i]].stripe <= piece->done)
            return false;
    return true;
}

static void add_inners(const mesh_sum *sum, const mesh_piece *piece, route_span span)
{
    static const float one = 1;
    for (uint32_t part = 0; part < sum->cut.parts; part++) {
        size_t count = layout_exists(&sum->cut, part, span.first, span.length);
        for (uint32_t i = 0; count > 0 && i < piece->inner_count; i++) {
            const mesh_flow *flow = &sum->route.flows[piece->inners[i]];
            const float *in = mesh_flow_window(sum, flow, piece->done, part);
            sum->kernel->combine(sum->asked.sum + part * sum->stride + span.first, &in, &one, 1,
                                 count, KERNEL_ADD);
        }
    }
}

/* The final numbers of one part of a piece go to its inner children. */
static void pass_down(mesh *self, const mesh_piece *piece, route_span span, uint32_t part)
{
    const mesh_sum *sum = &self->sum;
    tell_came(sum, part, span);
    for (uint32_t i = 0; i < piece->inner_count; i++)
        send_part(self, sum->route.flows[piece->inners[i]].from, WIRE_BLOCK_SUM, span, part);
}

/* Adds up all that is in; gives back whether that was anything. */
static bool add_up(mesh *self, mesh_piece *piece)
{
    mesh_sum *sum = &self->sum;
    bool moved = false;
    for (; is_ready(sum, piece); moved = true) {
        route_span span = mesh_span(sum, &piece->where, piece->done);
        add_inners(sum, piece, span);
        for (uint32_t part = 0; part < sum->cut.parts; part++) {
            if (piece->parent == ROUTE_NOBODY)
                pass_down(self, piece, span, part);
            else
                send_part(self, piece->parent, WIRE_BLOCK_PARTIAL, span, part);
        }
        piece->done = mesh_next_stripe(sum, &piece->where, piece->done + 1);
    }
    return moved;
}

/* ---- slices ---- */

/* Whether the coded parts of all leaves that have one are in. */
static bool is_in(const mesh_sum *sum, const mesh_slice *slice)
{
    if (slice->decoded == sum->cut.stripes)
        return false;
    for (uint32_t t = 0; t < slice->terms.count; t++) {
        int32_t flow = sum->intake[slice->terms.places[t]].coded[slice->number];
        if (flow != MESH_NO_FLOW && sum->route.flows[flow].stripe <= slice->decoded)
            return false;
    }
    return true;
}

/* Of coded parts in another form than float32, of which there is one, in the order of members. */
static void decode_rounded(mesh_sum *sum, const mesh_slice *slice, route_span span)
{
    float *out = sum->asked.sum + span.first;
    memset(out, 0, span.length * sizeof(*out));
    for (uint32_t t = 0; t < slice->terms.count; t++) {
        int32_t flow = sum->intake[slice->terms.places[t]].coded[slice->number];
        const float *term =
            flow == MESH_NO_FLOW /* the own one */
                ? sum->asked.part + span.first
                : mesh_form_term(
                      sum, mesh_flow_window(sum, &sum->route.flows[flow], slice->decoded, 0), span);
        sum->kernel->combine(out, &term, &slice->terms.rows[t], 1, span.length, KERNEL_ADD);
    }
}

static void decode_stripe(mesh_sum *sum, mesh_slice *slice)
{
    route_span span = mesh_span(sum, &slice->where, slice->decoded);
    if (sum_form_rounds(&sum->forms.of, TARRY_WAY_UP)) {
        decode_rounded(sum, slice, span);
        return;
    }
    for (uint32_t t = 0; t < slice->terms.count; t++) {
        int32_t flow = sum->intake[slice->terms.places[t]].coded[slice->number];
        sum->z[t] = flow == MESH_NO_FLOW /* the own one */
                        ? sum->asked.part + span.first
                        : mesh_flow_window(sum, &sum->route.flows[flow], slice->decoded, 0);
    }
    share_decode(sum->kernel, &sum->cut, span, &slice->terms, sum->z, KERNEL_SET,
                 sum->asked.sum + span.first, sum->stride);
}

/* Decodes a stripe, or adds up pieces; gives back whether there was anything to do. */
static bool advance(mesh *self, mesh_slice *slice)
{
    mesh_sum *sum = &self->sum;
    bool moved = false;
    if (is_in(sum, slice)) {
        decode_stripe(sum, slice);
        mesh_form_round(sum, slice, mesh_span(sum, &slice->where, slice->decoded));
        slice->decoded = mesh_next_stripe(sum, &slice->where, slice->decoded + 1);
        moved = true;
    }
    for (uint32_t k = 0; k < slice->pieces; k++)
        moved = add_up(self, &sum->route.pieces[slice->first_piece + k]) || moved;
    if (moved)
        send_final(self, slice);
    return moved;
}

static void resume_all(const mesh_sum *sum)
{
    for (uint32_t i = 0; i < sum->count; i++)
        if (mesh_is_neighbour(sum, i) && reached(sum, i) != NULL)
            channel_resume(sum->members[i]->link->channel);
}

void mesh_reduce(mesh *self)
{
    mesh_sum *sum = &self->sum;
    bool moved = false;
    if (!sum->runs || sum->begun < sum->count)
        return;
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        mesh_slice *slice = &sum->route.slices[i];
        while (slice->owner == sum->place && advance(self, slice)) {
            send_coded_to(self, ROUTE_NOBODY);
            moved = true;
        }
    }
    if (moved)
        resume_all(sum);
    mesh_reduce_look_whether_done(self);
}

/* ---- in ---- */

static void sum_came(mesh *self, const mesh_flow *flow, const wire_block *block)
{
    mesh_sum *sum = &self->sum;
    const route_span span = {block->first, block->count};
    mesh_form_came(sum, flow, block);
    if (flow->piece == ROUTE_NOBODY) {
        tell_came(sum, block->part, span);
        return;
    }
    const mesh_piece *piece = &sum->route.pieces[flow->piece];
    pass_down(self, piece, span, block->part);
}

void mesh_reduce_came(mesh *self, mesh_flow *flow, const wire_block *block)
{
    mesh_sum *sum = &self->sum;
    if (flow->kind == MESH_SUM)
        sum_came(self, flow, block);
    mesh_flow_advance(sum, flow);
    if (flow->kind != MESH_SUM) {
        mesh_reduce(self);
        return;
    }
    if (flow->piece != ROUTE_NOBODY)
        send_final(self, &sum->route.slices[flow->slice]);
    mesh_reduce_look_whether_done(self);
}
