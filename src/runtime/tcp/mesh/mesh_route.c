/* SPDX-License-Identifier: Apache-2.0 */
/* What each member has to do in the group's shape (route/route.h), in places instead of seats. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum {
    NUMBER_BYTES = 4,
    AHEAD_BYTES = 2 << 20, /* of the own coded part, to all together, within: */
    AHEAD_MOST = 16,       /* blocks to each of them */
    AHEAD_LEAST = 2,
    WINDOW_LEAST = 2,         /* blocks, of one member */
    WINDOWS_BYTES = 64 << 20, /* of all together, if that is enough for WINDOW_LEAST */
};

/* ---- seats ---- */

typedef struct seated {
    const mesh_address *where;
    uint32_t place;
} seated;

static int compare_seats(const void *one, const void *other)
{
    const seated *first = one, *second = other;
    int order = mesh_address_compare_hosts(first->where, second->where);
    return order != 0 ? order : (first->place > second->place) - (first->place < second->place);
}

/* Members of a host sit beside each other, so that rows lie within hosts as far as they go; where
 * there are no rows, a seat is the place. */
static int take_seats(mesh *self, const mesh_address *where)
{
    mesh_sum *sum = &self->sum;
    seated *all = memory_allocate(&self->allocator, sum->count, sizeof(*all));
    if (all == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < sum->count; i++)
        all[i] = (seated){&where[i], i};
    if (sum->shape.kind != TARRY_SHAPE_DIRECT)
        qsort(all, sum->count, sizeof(*all), compare_seats);
    for (uint32_t i = 0; i < sum->count; i++)
        sum->route.seats[i] = all[i].place;
    memory_release(&self->allocator, all);
    return TARRY_OK;
}

static uint32_t own_seat(const mesh_sum *sum)
{
    uint32_t seat = 0;
    while (sum->route.seats[seat] != sum->place)
        seat++;
    return seat;
}

/* ---- the parts, counted first, and then made ---- */

typedef struct builder {
    const route *of;
    mesh_sum *sum;
    uint32_t seat;
    uint32_t *found; /* seats, for one call */
    bool makes;      /* else it counts */
} builder;

static void add_flow(builder *self, mesh_flow flow, uint32_t from_seat)
{
    mesh_route *made = &self->sum->route;
    if (self->makes) {
        flow.from = made->seats[from_seat];
        made->flows[made->flow_count] = flow;
    }
    made->flow_count++;
}

static size_t piece_room(const route *of)
{
    return of->shape.kind == TARRY_SHAPE_GRID
               ? route_cut(ROUTE_BLOCK_NUMBERS, of->shape.rows, 0).length
               : ROUTE_BLOCK_NUMBERS;
}

static void add_piece(builder *self, uint32_t slice, uint32_t k)
{
    mesh_route *made = &self->sum->route;
    route_piece piece = route_piece_at(self->of, self->seat, slice, k);
    uint32_t inners = route_inners(self->of, self->seat, slice, k, self->found);
    const mesh_flow flow = {.where = piece.where, .slice = slice, .piece = made->piece_count};
    if (self->makes)
        made->pieces[made->piece_count] = (mesh_piece){
            .where = piece.where,
            .slice = slice,
            .parent = piece.parent == ROUTE_NOBODY ? ROUTE_NOBODY : made->seats[piece.parent],
            .sum = MESH_NO_FLOW,
            .inners = made->inners + made->inner_count,
            .inner_count = inners,
        };
    for (uint32_t i = 0; i < inners; i++) {
        mesh_flow partial = flow;
        partial.kind = MESH_PARTIAL;
        partial.room = piece_room(self->of);
        if (self->makes) /* the place, until flows have theirs */
            made->inners[made->inner_count] = (int32_t)made->seats[self->found[i]];
        made->inner_count++;
        add_flow(self, partial, self->found[i]);
    }
    if (piece.parent != ROUTE_NOBODY) {
        mesh_flow sum = flow;
        sum.kind = MESH_SUM;
        add_flow(self, sum, piece.parent);
    }
    made->piece_count++;
}

static void add_slice(builder *self, uint32_t index)
{
    mesh_route *made = &self->sum->route;
    route_slice slice = route_slice_at(self->of, self->seat, index);
    const mesh_flow flow = {.where = slice.where, .slice = index, .piece = ROUTE_NOBODY};
    mesh_slice *to = &made->slices[index];
    if (slice.owner != self->seat) {
        mesh_flow sum = flow;
        sum.kind = MESH_SUM;
        add_flow(self, sum, slice.owner);
    } else {
        uint32_t leaves = route_leaves(self->of, self->seat, index, self->found);
        for (uint32_t i = 0; i < leaves; i++) {
            mesh_flow coded = flow;
            coded.kind = MESH_CODED;
            coded.room = ROUTE_BLOCK_NUMBERS;
            if (self->found[i] != self->seat)
                add_flow(self, coded, self->found[i]);
        }
        made->leaf_count += leaves;
    }
    if (self->makes)
        *to = (mesh_slice){
            .where = slice.where,
            .owner = made->seats[slice.owner],
            .sum = MESH_NO_FLOW,
            .first_piece = made->piece_count,
        };
    uint32_t before = made->piece_count;
    for (uint32_t k = 0; slice.owner == self->seat && k < route_pieces(self->of, self->seat, index);
         k++)
        add_piece(self, index, k);
    if (self->makes)
        to->pieces = made->piece_count - before;
}

static void add_all(builder *self)
{
    mesh_route *made = &self->sum->route;
    made->flow_count = made->piece_count = made->inner_count = made->leaf_count = 0;
    made->slice_count = route_slices(self->of, self->seat);
    for (uint32_t i = 0; i < made->slice_count; i++)
        add_slice(self, i);
}

/* ---- who is what to whom ---- */

static int compare_flows(const void *one, const void *other)
{
    const mesh_flow *first = one, *second = other;
    if (first->from != second->from)
        return first->from < second->from ? -1 : 1;
    if (first->slice != second->slice)
        return first->slice < second->slice ? -1 : 1;
    return (first->piece > second->piece) - (first->piece < second->piece);
}

static int32_t partial_of(const mesh_sum *sum, uint32_t place, uint32_t piece)
{
    const mesh_intake *intake = &sum->intake[place];
    uint32_t at = intake->first_flow;
    while (sum->route.flows[at].kind != MESH_PARTIAL || sum->route.flows[at].piece != piece)
        at++;
    assert(at < intake->first_flow + intake->flows);
    return (int32_t)at;
}

static void connect_flows(mesh_sum *sum)
{
    mesh_route *made = &sum->route;
    qsort(made->flows, made->flow_count, sizeof(*made->flows), compare_flows);
    for (uint32_t i = 0; i < sum->count; i++)
        sum->intake[i] = (mesh_intake){.coded = {MESH_NO_FLOW, MESH_NO_FLOW}};
    for (uint32_t i = made->flow_count; i-- > 0;) {
        const mesh_flow *flow = &made->flows[i];
        mesh_intake *intake = &sum->intake[flow->from];
        mesh_slice *slice = &made->slices[flow->slice];
        intake->first_flow = i;
        intake->flows++;
        if (flow->kind == MESH_CODED)
            intake->coded[slice->number] = (int32_t)i;
        else if (flow->kind == MESH_SUM && slice->owner != sum->place)
            slice->sum = (int32_t)i;
        else if (flow->kind == MESH_SUM)
            made->pieces[flow->piece].sum = (int32_t)i;
    }
    for (uint32_t k = 0; k < made->piece_count; k++)
        for (uint32_t i = 0; i < made->pieces[k].inner_count; i++) {
            int32_t *inner = &made->pieces[k].inners[i];
            *inner = partial_of(sum, (uint32_t)*inner, k);
        }
}

/* Own slices are numbered, and have room for their terms. */
static void number_slices(mesh_sum *sum)
{
    mesh_route *made = &sum->route;
    uint32_t number = 0;
    for (uint32_t i = 0; i < made->slice_count; i++) {
        mesh_slice *slice = &made->slices[i];
        if (slice->owner != sum->place)
            continue;
        assert(number < MESH_OWN_SLICES);
        slice->number = number;
        slice->terms.places = made->terms + (size_t)number++ * made->leaf_count;
    }
}

/* ---- room ---- */

static void size_windows(mesh_sum *sum, size_t others)
{
    size_t block = WIRE_BLOCK_NUMBERS;
    size_t ahead = others > 0 ? AHEAD_BYTES / NUMBER_BYTES / block / others : 0;
    ahead = ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
    /* Who is sent something may be as far behind again. */
    size_t blocks = others > 0 ? WINDOWS_BYTES / NUMBER_BYTES / block / others : 0;
    blocks = blocks < WINDOW_LEAST ? WINDOW_LEAST : blocks > 2 * ahead ? 2 * ahead : blocks;
    sum->window_stripes = blocks;
    sum->ahead = (uint32_t)ahead;
}

static size_t count_flows(const mesh_route *made, mesh_flow_kind kind)
{
    size_t count = 0;
    for (uint32_t i = 0; i < made->flow_count; i++)
        count += made->flows[i].kind == kind;
    return count;
}

/* The flows of that kind lie one behind the other, of `parts` parts. */
static void place_windows(mesh_sum *sum, mesh_flow_kind kind, float *at, size_t parts)
{
    for (uint32_t i = 0; i < sum->route.flow_count; i++) {
        mesh_flow *flow = &sum->route.flows[i];
        if (flow->kind != kind)
            continue;
        flow->window = at;
        at += flow->room * parts * sum->window_stripes;
    }
}

static int allocate_parts(mesh *self)
{
    mesh_route *made = &self->sum.route;
    const tarry_allocator *from = &self->allocator;
    made->pieces = memory_allocate(from, made->piece_count, sizeof(*made->pieces));
    made->flows = memory_allocate(from, made->flow_count, sizeof(*made->flows));
    made->inners = memory_allocate(from, made->inner_count, sizeof(*made->inners));
    made->terms =
        memory_allocate(from, (size_t)MESH_OWN_SLICES * made->leaf_count, sizeof(*made->terms));
    return made->pieces != NULL && made->flows != NULL && made->inners != NULL &&
                   made->terms != NULL
               ? TARRY_OK
               : TARRY_ERROR_NO_MEMORY;
}

int mesh_route_make(mesh *self, const mesh_address *where)
{
    mesh_sum *sum = &self->sum;
    const tarry_allocator *from = &self->allocator;
    mesh_route *made = &sum->route;
    const route of = {sum->shape, sum->count};
    builder with = {.of = &of, .sum = sum};
    int error = TARRY_ERROR_NO_MEMORY;
    uint32_t leaves = route_leaves_most(&of), inners = route_inners_most(&of);
    made->stripe_length = route_stripe_length(&of);
    made->seats = memory_allocate(from, sum->count, sizeof(*made->seats));
    with.found = memory_allocate(from, leaves > inners ? leaves : inners, sizeof(*with.found));
    if (made->seats == NULL || with.found == NULL || take_seats(self, where) != TARRY_OK)
        goto done;
    with.seat = own_seat(sum);
    made->slices = memory_allocate(from, route_slices(&of, with.seat), sizeof(*made->slices));
    if (made->slices == NULL)
        goto done;
    add_all(&with);
    error = allocate_parts(self);
    if (error != TARRY_OK)
        goto done;
    with.makes = true;
    add_all(&with);
    number_slices(sum);
    connect_flows(sum);
    size_t coded = count_flows(made, MESH_CODED);
    size_windows(sum, coded);
    sum->windows = vector_allocate(from, coded * sum->window_stripes * ROUTE_BLOCK_NUMBERS);
    if (sum->windows == NULL)
        error = TARRY_ERROR_NO_MEMORY;
    else
        place_windows(sum, MESH_CODED, sum->windows, 1);
done:
    memory_release(from, with.found);
    return error;
}

void mesh_route_free(mesh *self)
{
    mesh_sum *sum = &self->sum;
    mesh_route *made = &sum->route;
    vector_release(&self->allocator, sum->partials);
    vector_release(&self->allocator, sum->windows);
    memory_release(&self->allocator, sum->rows);
    memory_release(&self->allocator, made->terms);
    memory_release(&self->allocator, made->inners);
    memory_release(&self->allocator, made->flows);
    memory_release(&self->allocator, made->pieces);
    memory_release(&self->allocator, made->slices);
    memory_release(&self->allocator, made->seats);
    *made = (mesh_route){0};
    sum->partials = sum->windows = sum->rows = NULL;
    sum->partials_parts = 0;
    sum->rows_room = 0;
}

static int make_room_for_rows(mesh *self, uint32_t parts)
{
    mesh_sum *sum = &self->sum;
    size_t of_one = (size_t)parts * sum->route.leaf_count;
    if (of_one > sum->rows_room) {
        float *rows = memory_allocate(&self->allocator, MESH_OWN_SLICES * of_one, sizeof(float));
        if (rows == NULL)
            return TARRY_ERROR_NO_MEMORY;
        memory_release(&self->allocator, sum->rows);
        sum->rows = rows;
        sum->rows_room = of_one;
    }
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        mesh_slice *slice = &sum->route.slices[i];
        slice->terms.rows = sum->rows + slice->number * sum->rows_room;
    }
    return TARRY_OK;
}

int mesh_route_make_room(mesh *self, uint32_t parts)
{
    mesh_sum *sum = &self->sum;
    int error = make_room_for_rows(self, parts);
    size_t flows = count_flows(&sum->route, MESH_PARTIAL);
    if (error != TARRY_OK || flows == 0 || parts <= sum->partials_parts)
        return error;
    const route of = {sum->shape, sum->count};
    float *partials =
        vector_allocate(&self->allocator, flows * sum->window_stripes * parts * piece_room(&of));
    if (partials == NULL)
        return TARRY_ERROR_NO_MEMORY;
    vector_release(&self->allocator, sum->partials);
    sum->partials = partials;
    sum->partials_parts = parts;
    place_windows(sum, MESH_PARTIAL, partials, parts);
    return TARRY_OK;
}
