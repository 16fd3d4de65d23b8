/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/layout.h"

#include <assert.h>

/* ceil(count / size) for count >= 1, without overflow. */
static size_t pieces(size_t count, size_t size)
{
    return (count - 1) / size + 1;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

layout layout_make(size_t dimension, uint32_t parts, size_t stripe_length)
{
    assert(dimension >= 1 && parts >= 1 && stripe_length >= 1);
    size_t part_length = pieces(dimension, parts);
    size_t stripes = pieces(part_length, stripe_length);
    assert(stripes <= UINT32_MAX);
    return (layout){
        .dimension = dimension,
        .parts = parts,
        .part_length = part_length,
        .stripe_length = stripe_length,
        .stripes = (uint32_t)stripes,
    };
}

size_t layout_stripe_start(const layout *cut, uint32_t stripe)
{
    assert(stripe < cut->stripes);
    return stripe * cut->stripe_length;
}

size_t layout_stripe_length(const layout *cut, uint32_t stripe)
{
    size_t start = layout_stripe_start(cut, stripe);
    return smaller(cut->stripe_length, cut->part_length - start);
}

size_t layout_exists(const layout *cut, uint32_t part, size_t first, size_t length)
{
    assert(part < cut->parts && first + length <= cut->part_length);
    size_t place = part * cut->part_length + first;
    if (place >= cut->dimension)
        return 0;
    return smaller(length, cut->dimension - place);
}

size_t layout_stand(const layout *cut, size_t whole)
{
    /* Padding, less than a number per part, is then in the last part alone, in either cut. */
    size_t most = cut->part_length > cut->parts ? cut->part_length - cut->parts : 0;
    return smaller(whole, most) / LAYOUT_LINE * LAYOUT_LINE;
}

size_t layout_present(const layout *cut, uint32_t part, uint32_t stripe)
{
    return layout_exists(cut, part, layout_stripe_start(cut, stripe),
                         layout_stripe_length(cut, stripe));
}
