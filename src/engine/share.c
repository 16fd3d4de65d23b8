/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/share.h"

#include "coding/transfer.h"

share share_of(const layout *cut, uint32_t stripe, uint32_t count, uint32_t place)
{
    share of = route_cut(layout_stripe_length(cut, stripe), count, place);
    of.first += layout_stripe_start(cut, stripe);
    return of;
}

size_t share_most(const layout *cut, uint32_t count)
{
    return share_of(cut, 0, count, 0).length; /* no stripe is longer, and no share of it */
}

size_t share_numbers(const layout *cut, share of)
{
    size_t numbers = 0;
    for (uint32_t part = 0; part < cut->parts; part++)
        numbers += layout_exists(cut, part, of.first, of.length);
    return numbers;
}

int share_rest(const tarry_engine_sum *asked, tarry_engine_sum *rest, size_t *stride)
{
    layout cut = layout_make(asked->dimension, asked->parts, 1);
    if (layout_stand(&cut, asked->whole) != asked->whole)
        return TARRY_ERROR_ARGUMENT;
    *rest = *asked;
    rest->dimension -= asked->parts * asked->whole;
    rest->sum += asked->whole;
    if (asked->part != NULL)
        rest->part += asked->whole;
    *stride = cut.part_length;
    return TARRY_OK;
}

void share_terms_set(share_terms *terms, const float *weights, uint32_t parts, uint32_t count,
                     const bool *has)
{
    terms->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (has[i])
            terms->places[terms->count++] = i;
    for (uint32_t part = 0; part < parts; part++)
        for (uint32_t t = 0; t < terms->count; t++)
            terms->rows[(size_t)part * terms->count + t] =
                weights[(size_t)part * count + terms->places[t]];
}

void share_decode(const kernel *with, const layout *cut, share of, const share_terms *terms,
                  const float *const *z, kernel_mode mode, float *out, size_t stride)
{
    if (of.length > 0)
        transfer_decode_range(with, cut, of.first, of.length, z, terms->rows, terms->count, mode,
                              out, stride);
}
