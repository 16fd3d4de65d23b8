/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sum over connections: its beginning, its end, and what comes in of it; mesh_reduce.c adds up.
 * Who begins says so to all that it exchanges numbers with, and is then sent their coded parts,
 * stripe by stripe; each stripe that is in is added up and sent on, so that both directions are in
 * use all the time. Coded parts go out only so far ahead of the stripe that is decoded next: a
 * member that waits for others' numbers need not send more, and what is on its way stays in the
 * caches. Nobody waits in a circle: who is furthest behind is sent its next stripe by all, and
 * partial sums go up trees. A member that is further ahead is not read once its window is full.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/sum_id.h"
#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

/* Whether the member and this one have any numbers for each other. */
static bool meets(const mesh_sum *sum, uint32_t place)
{
    const mesh_intake *intake = &sum->intake[place];
    for (uint32_t i = 0; i < intake->flows; i++) {
        mesh_flow fresh = sum->route.flows[intake->first_flow + i];
        mesh_flow_begin(sum, &fresh);
        if (!mesh_flow_is_over(sum, &fresh))
            return true;
    }
    return false;
}

/* ---- the end ---- */

void mesh_sum_let_go(mesh *self)
{
    mesh_sum *sum = &self->sum;
    sum->whole = sum->runs ? mesh_reduce_whole(sum) : sum->whole;
    sum->runs = false;
    for (uint32_t i = 0; i < sum->count; i++) {
        const mesh_member *member = sum->members[i];
        if (member == NULL || !mesh_is_linked(member))
            continue;
        channel *its = member->link->channel;
        channel_drop(its, MESH_TAG_SUM);
        channel_divert(its, WIRE_BLOCK);
        channel_resume(its);
        if (!channel_detach(its, MESH_TAG_SUM))
            mesh_misbehaves(member->link, "out of memory");
    }
}

void mesh_sum_fail(mesh *self, uint32_t place, const char *why)
{
    char text[sizeof(self->engine_progress.why)];
    const mesh_sum *sum = &self->sum;
    uint32_t worker = place < sum->count ? sum->workers[place] : TARRY_ENGINE_NOBODY;
    if (place < sum->count)
        snprintf(text, sizeof(text), "worker %u: %s", worker, why);
    else
        snprintf(text, sizeof(text), "%s", why);
    mesh_sum_let_go(self);
    mesh_engine_is(self, TARRY_ENGINE_FAILED, worker, text);
}

bool mesh_sum_needs(const mesh_sum *sum, uint32_t place)
{
    const mesh_intake *intake = &sum->intake[place];
    bool needed = !intake->begun;
    for (uint32_t i = 0; i < intake->flows && !needed; i++) {
        const mesh_flow *flow = &sum->route.flows[intake->first_flow + i];
        needed = !mesh_flow_is_over(sum, flow) && (flow->kind != MESH_CODED || sum->has[place]);
    }
    return needed;
}

/* Something of that member came in. */
static void note(mesh_sum *sum, uint32_t place)
{
    sum->intake[place].came_ns = clock_now_ns();
    mesh_pace_moves(&sum->pace, sum->intake[place].came_ns);
}

/* ---- who takes part ---- */

/* All have begun with whom numbers are exchanged: whose coded parts there are is known. */
static void set_terms(mesh_sum *sum)
{
    mesh_times_begin(sum);
    for (uint32_t k = 0; k < sum->route.slice_count; k++) {
        mesh_slice *slice = &sum->route.slices[k];
        if (slice->owner != sum->place)
            continue;
        for (uint32_t i = 0; i < sum->count; i++)
            sum->among[i] = sum->has[i] && (i == sum->place ||
                                            sum->intake[i].coded[slice->number] != MESH_NO_FLOW);
        share_terms_set(&slice->terms, sum->asked.weights, sum->asked.parts, sum->count,
                        sum->among);
    }
}

static bool is_same_shape(tarry_shape one, tarry_shape other)
{
    return one.kind == other.kind && one.rows == other.rows;
}

/* It has begun the sum that runs here. */
static void join(mesh *self, uint32_t place, const wire_begun *begun)
{
    mesh_sum *sum = &self->sum;
    mesh_intake *intake = &sum->intake[place];
    if (begun->dimension != sum->asked.dimension || begun->parts != sum->asked.parts ||
        begun->up != sum->forms.of.up.kind || begun->down != sum->forms.of.down.kind ||
        !is_same_shape(begun->shape, sum->shape)) {
        mesh_sum_fail(self, place, "it makes a sum of other numbers, or in another way");
        return;
    }
    if (intake->begun) { /* a sign of life, or neither needs anything of the other */
        intake->came_ns = clock_now_ns();
        return;
    }
    intake->begun = true;
    note(sum, place);
    sum->has[place] = !begun->empty;
    sum->begun++;
    mesh_reduce_send_coded(self, place);
    if (sum->begun == sum->count)
        set_terms(sum);
    mesh_reduce(self);
}

static bool is_this(const mesh_sum *sum, const wire_begun *begun)
{
    return sum->runs && begun->epoch == sum->epoch && sum_id_named(&begun->name, &sum->asked.name);
}

void mesh_sum_say_begun(mesh *self, mesh_member *member)
{
    const mesh_sum *sum = &self->sum;
    uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_BEGUN];
    const wire_begun begun = {
        .name = sum->asked.name,
        .epoch = sum->epoch,
        .dimension = sum->asked.dimension,
        .parts = sum->asked.parts,
        .empty = !sum->has[sum->place],
        .shape = sum->shape,
        .up = sum->forms.of.up.kind,
        .down = sum->forms.of.down.kind,
    };
    channel_send(member->link->channel, frame, wire_begun_encode(&begun, frame));
}

/* The place of a member in the group that makes the sum; the group's count: it has none. */
static uint32_t place_of(const mesh_sum *sum, const mesh_member *member)
{
    uint32_t place = member->place;
    return place < sum->count && sum->members[place] == member ? place : sum->count;
}

void mesh_sum_linked(mesh *self, mesh_member *member)
{
    mesh_sum *sum = &self->sum;
    uint32_t place = place_of(sum, member);
    if (sum->runs && place < sum->count && meets(sum, place))
        mesh_sum_say_begun(self, member);
}

void mesh_sum_lost(mesh *self, mesh_member *member, const char *why)
{
    const mesh_sum *sum = &self->sum;
    uint32_t place = place_of(sum, member);
    if (!sum->runs || place == sum->count)
        return;
    if (mesh_sum_needs(sum, place))
        mesh_sum_fail(self, place, why);
    else
        mesh_reduce_look_whether_done(self); /* it may have ended as it has all, too */
}

bool mesh_sum_begun(mesh_link *link, const wire_begun *begun)
{
    mesh *self = link->mesh;
    uint32_t place = place_of(&self->sum, link->member);
    link->begun = *begun;
    if (place < self->sum.count && is_this(&self->sum, begun))
        join(self, place, begun);
    return true;
}

/* ---- in ---- */

/* Whether a block belongs to the sum that runs. */
static bool is_wanted(const mesh_link *link, const wire_block *block, uint32_t *place)
{
    const mesh_sum *sum = &link->mesh->sum;
    if (!sum->runs || !sum_id_named(&block->name, &sum->asked.name))
        return false;
    *place = place_of(sum, link->member);
    return *place < sum->count && sum->intake[*place].begun;
}

static bool is_kind(mesh_flow_kind kind, wire_block_kind of)
{
    return kind == (of == WIRE_BLOCK_PART  ? MESH_CODED
                    : of == WIRE_BLOCK_SUM ? MESH_SUM
                                           : MESH_PARTIAL);
}

/* The flow of that member whose next block it is; NULL: there is none. */
static mesh_flow *find_flow(const mesh_sum *sum, uint32_t place, const wire_block *block)
{
    const mesh_intake *intake = &sum->intake[place];
    for (uint32_t i = 0; i < intake->flows; i++) {
        mesh_flow *flow = &sum->route.flows[intake->first_flow + i];
        size_t first;
        if (is_kind(flow->kind, block->kind) && !mesh_flow_is_over(sum, flow) &&
            (flow->kind != MESH_CODED || sum->has[place]) && flow->part == block->part &&
            mesh_flow_next(sum, flow, &first) == block->count && first == block->first)
            return flow;
    }
    return NULL;
}

static bool is_in_its_form(const mesh_sum *sum, const wire_block *block)
{
    const route_span span = {block->first, block->count};
    const compress_form form = mesh_form_of(sum, block->kind, span);
    return block->form == form.kind && block->bytes == compress_bytes(form, block->count);
}

/* The stripe behind the last one that its window has room for. */
static uint64_t window_end(const mesh_sum *sum, const mesh_flow *flow)
{
    uint64_t used = flow->kind == MESH_CODED ? sum->route.slices[flow->slice].decoded
                                             : sum->route.pieces[flow->piece].done;
    return used + sum->window_stripes;
}

channel_verdict mesh_sum_begin(mesh_link *link, const wire_block *block, void **place)
{
    mesh_sum *sum = &link->mesh->sum;
    uint32_t from;
    *place = NULL;
    if (!is_wanted(link, block, &from))
        return CHANNEL_TAKE; /* to nowhere */
    const mesh_flow *flow = find_flow(sum, from, block);
    if (flow == NULL || !is_in_its_form(sum, block)) {
        mesh_misbehaves(link, "it sends another block than the next one");
        return CHANNEL_END;
    }
    if (flow->kind == MESH_SUM) {
        *place = mesh_form_place(sum, flow, block);
        return CHANNEL_TAKE;
    }
    if (flow->stripe >= window_end(sum, flow))
        return CHANNEL_WAIT;
    *place = mesh_flow_window(sum, flow, flow->stripe, flow->part);
    return CHANNEL_TAKE;
}

bool mesh_sum_complete(mesh_link *link, const wire_block *block)
{
    mesh *self = link->mesh;
    mesh_sum *sum = &self->sum;
    uint32_t from;
    if (!is_wanted(link, block, &from))
        return true;
    mesh_flow *flow = find_flow(sum, from, block);
    assert(flow != NULL); /* that it began in */
    note(sum, from);
    mesh_reduce_came(self, flow, block);
    return true;
}

/* ---- the beginning ---- */

static void begin(mesh *self, const tarry_engine_sum *asked, size_t stride)
{
    mesh_sum *sum = &self->sum;
    mesh_route *made = &sum->route;
    sum->asked = *asked;
    sum->stride = stride;
    sum->whole = 0;
    sum->cut = layout_make(asked->dimension, asked->parts, made->stripe_length);
    sum->runs = true;
    sum->begun = 0;
    sum->moved = 0;
    for (uint32_t i = 0; i < made->flow_count; i++)
        mesh_flow_begin(sum, &made->flows[i]);
    for (uint32_t i = 0; i < made->piece_count; i++)
        made->pieces[i].done = mesh_next_stripe(sum, &made->pieces[i].where, 0);
    for (uint32_t i = 0; i < made->slice_count; i++) {
        mesh_slice *slice = &made->slices[i];
        slice->decoded = slice->final = mesh_next_stripe(sum, &slice->where, 0);
        slice->sent = 0;
    }
    mesh_form_begin(sum);
    mesh_watch_begin(self);
    for (uint32_t i = 0; i < sum->count; i++) {
        mesh_intake *intake = &sum->intake[i];
        intake->begun = !meets(sum, i);
        sum->has[i] = false;
        sum->begun += intake->begun;
        intake->came_ns = sum->pace.moved_ns;
    }
    sum->has[sum->place] = asked->part != NULL;
}

void mesh_sum_start(mesh *self, const tarry_engine_sum *asked, size_t stride, uint64_t epoch)
{
    mesh_sum *sum = &self->sum;
    assert(sum->count > 0 && !sum->runs);
    sum->epoch = epoch;
    begin(self, asked, stride);
    if (sum->begun == sum->count)
        set_terms(sum);
    for (uint32_t i = 0; i < sum->count && sum->runs; i++) {
        mesh_member *member = sum->members[i];
        if (!meets(sum, i))
            continue;
        if (member == NULL) {
            mesh_sum_fail(self, i, "is no member any more");
        } else if (!mesh_is_linked(member)) {
            mesh_hurry(self, member);
        } else {
            mesh_sum_say_begun(self, member);
            if (sum->runs && is_this(sum, &member->link->begun))
                join(self, i, &member->link->begun);
        }
    }
    mesh_reduce(self);
    mesh_set_tick(self);
}
