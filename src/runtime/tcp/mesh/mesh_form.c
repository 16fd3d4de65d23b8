/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a direct sum in fewer bytes (engine/sum_form.h). What is sent stays in its form until
 * the sum's end; of the sum, others' bytes come beside it. */
#include "base/memory.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum { NUMBER_BYTES = 4, MOST_OF_ONE = 2 * NUMBER_BYTES /* bytes in any form */ };

static bool is_rounded(const mesh_sum *sum, tarry_way way)
{
    return sum_form_rounds(&sum->forms.of, way);
}

compress_form mesh_form_of(const mesh_sum *sum, wire_block_kind kind, route_span span)
{
    if (kind == WIRE_BLOCK_PARTIAL)
        return (compress_form){.kind = TARRY_COMPRESS_NONE};
    return sum_form_of(&sum->forms.of, kind == WIRE_BLOCK_PART ? TARRY_WAY_UP : TARRY_WAY_DOWN,
                       sum->cut.part_length, span.first, span.length);
}

static size_t block_bytes(const mesh_sum *sum, wire_block_kind kind, route_span span)
{
    return compress_bytes(mesh_form_of(sum, kind, span), span.length);
}

/* ---- room ---- */

/* Of what this member sends of a slice: the sum in an own one, else its own coded part. */
static size_t slice_bytes(const mesh_sum *sum, const mesh_slice *slice)
{
    const bool own = slice->owner == sum->place;
    size_t bytes = 0;
    if (!is_rounded(sum, own ? TARRY_WAY_DOWN : TARRY_WAY_UP))
        return 0;
    for (uint32_t stripe = 0; stripe < sum->cut.stripes; stripe++)
        bytes += block_bytes(sum, own ? WIRE_BLOCK_SUM : WIRE_BLOCK_PART,
                             mesh_span(sum, &slice->where, stripe));
    return bytes;
}

static size_t out_bytes(const mesh_sum *sum)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < sum->route.slice_count; i++)
        bytes += slice_bytes(sum, &sum->route.slices[i]);
    return bytes;
}

/* Room for at least so many bytes; what was there is gone. */
static int make_room(const mesh *self, uint8_t **bytes, size_t *room, size_t wanted)
{
    if (wanted <= *room)
        return TARRY_OK;
    uint8_t *made = memory_allocate(&self->allocator, wanted, 1);
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memory_release(&self->allocator, *bytes);
    *bytes = made;
    *room = wanted;
    return TARRY_OK;
}

static size_t longest_block(const mesh_sum *sum)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        size_t length = mesh_span(sum, &sum->route.slices[i].where, 0).length;
        longest = length > longest ? length : longest;
    }
    return longest;
}

int mesh_form_make_room(mesh *self, const tarry_engine_sum *asked)
{
    mesh_sum *sum = &self->sum;
    mesh_forms *forms = &sum->forms;
    int error = sum_forms_of(asked, sum->count, sum->workers[sum->place], &forms->of);
    if (error != TARRY_OK || !(is_rounded(sum, TARRY_WAY_UP) || is_rounded(sum, TARRY_WAY_DOWN)))
        return error;
    if (sum->shape.kind != TARRY_SHAPE_DIRECT)
        return TARRY_ERROR_ARGUMENT;
    sum->cut = layout_make(asked->dimension, asked->parts, sum->route.stripe_length);
    forms->in_stride = longest_block(sum) * NUMBER_BYTES + MOST_OF_ONE;
    if (is_rounded(sum, TARRY_WAY_UP))
        error = make_room(self, &forms->term, &forms->term_room, forms->in_stride);
    if (error == TARRY_OK && is_rounded(sum, TARRY_WAY_DOWN))
        error =
            make_room(self, &forms->in, &forms->in_room, sum->route.flow_count * forms->in_stride);
    return error == TARRY_OK ? make_room(self, &forms->out, &forms->out_room, out_bytes(sum))
                             : error;
}

void mesh_form_free(mesh *self)
{
    mesh_forms *forms = &self->sum.forms;
    memory_release(&self->allocator, forms->term);
    memory_release(&self->allocator, forms->in);
    memory_release(&self->allocator, forms->out);
    *forms = (mesh_forms){.in = NULL};
}

void mesh_form_begin(mesh_sum *sum)
{
    uint8_t *at = sum->forms.out;
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        mesh_slice *slice = &sum->route.slices[i];
        size_t bytes = slice_bytes(sum, slice);
        slice->packed = slice->unsent = bytes > 0 ? at : NULL;
        at = bytes > 0 ? at + bytes : at;
    }
}

/* ---- on the way to owners ---- */

const void *mesh_form_pack(const mesh_sum *sum, const mesh_slice *slice, route_span span)
{
    const float *numbers = sum->asked.part + span.first;
    if (!is_rounded(sum, TARRY_WAY_UP))
        return numbers;
    sum_form_encode(&sum->forms.of, TARRY_WAY_UP, sum->cut.part_length, span.first, span.length,
                    numbers, slice->packed);
    return slice->packed;
}

void mesh_form_packed(const mesh_sum *sum, mesh_slice *slice, route_span span)
{
    if (is_rounded(sum, TARRY_WAY_UP))
        slice->packed += block_bytes(sum, WIRE_BLOCK_PART, span);
}

const float *mesh_form_term(const mesh_sum *sum, const void *came, route_span span)
{
    float *term = (float *)(void *)sum->forms.term;
    sum_form_decode(mesh_form_of(sum, WIRE_BLOCK_PART, span), came, span.length, term);
    return term;
}

/* ---- and back ---- */

static void unpack(const mesh_sum *sum, const uint8_t *bytes, route_span span)
{
    sum_form_decode(mesh_form_of(sum, WIRE_BLOCK_SUM, span), bytes, span.length,
                    sum->asked.sum + span.first);
}

void mesh_form_round(mesh_sum *sum, mesh_slice *slice, route_span span)
{
    if (!is_rounded(sum, TARRY_WAY_DOWN))
        return;
    sum_form_encode(&sum->forms.of, TARRY_WAY_DOWN, sum->cut.part_length, span.first, span.length,
                    sum->asked.sum + span.first, slice->packed);
    unpack(sum, slice->packed, span);
    slice->packed += block_bytes(sum, WIRE_BLOCK_SUM, span);
}

void *mesh_form_place(const mesh_sum *sum, const mesh_flow *flow, const wire_block *block)
{
    if (is_rounded(sum, TARRY_WAY_DOWN))
        return sum->forms.in + (size_t)(flow - sum->route.flows) * sum->forms.in_stride;
    return sum->asked.sum + block->part * sum->stride + block->first;
}

void mesh_form_came(const mesh_sum *sum, const mesh_flow *flow, const wire_block *block)
{
    if (is_rounded(sum, TARRY_WAY_DOWN))
        unpack(sum, mesh_form_place(sum, flow, block), (route_span){block->first, block->count});
}
