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

size_t layout_present(const layout *cut, uint32_t part, uint32_t stripe)
{
    return layout_exists(cut, part, layout_stripe_start(cut, stripe),
                         layout_stripe_length(cut, stripe));
}

/* ---- transfer ---- */

/*
 * With several parts, decoding goes through the coded parts in groups and blocks, so that a block
 * of a group (16 KB of each) stays in the second cache while every part of the estimate is made
 * from it.
 */
enum {
    DECODE_GROUP = 16,
    DECODE_BLOCK = 4096,
};

size_t transfer_encode_scratch(size_t count, uint32_t parts)
{
    return count * parts * (sizeof(const float *) + sizeof(float));
}

/*
 * The inputs that exist at `offset` of the stripe: where each begins there and its coefficient.
 * Gives back how many; *end becomes the first offset at which one of them ends, at most its
 * present value.
 */
static size_t gather(const layout *cut, uint32_t stripe, const float *const *gradients,
                     const float *coefficients, size_t count, size_t offset, const float **in,
                     float *weights, size_t *end)
{
    size_t start = layout_stripe_start(cut, stripe) + offset;
    size_t inputs = 0;
    for (uint32_t part = 0; part < cut->parts; part++) {
        size_t present = layout_present(cut, part, stripe);
        if (present <= offset)
            break; /* later parts have no more */
        for (size_t i = 0; i < count; i++) {
            float coefficient = coefficients[i * cut->parts + part];
            if (coefficient == 0)
                continue;
            assert(gradients[i] != NULL);
            in[inputs] = gradients[i] + part * cut->part_length + start;
            weights[inputs++] = coefficient;
            if (present < *end)
                *end = present;
        }
    }
    return inputs;
}

void transfer_encode(const kernel *with, const layout *cut, uint32_t stripe,
                     const float *const *gradients, const float *coefficients, size_t count,
                     float *z, void *scratch)
{
    const float **in = scratch;
    float *weights = (float *)(in + count * cut->parts);
    size_t length = layout_stripe_length(cut, stripe);
    for (size_t offset = 0, end; offset < length; offset = end) {
        end = length;
        size_t inputs =
            gather(cut, stripe, gradients, coefficients, count, offset, in, weights, &end);
        with->combine(z + offset, in, weights, inputs, end - offset,
                      kernel_overwrite(cut->dimension));
    }
}

/* A range of numbers of each part: where it lies in the parts, and where in memory. */
typedef struct range {
    size_t first;  /* within a part */
    size_t length; /* >= 1 */
    float *out;    /* of part 0; those of the next part are `stride` numbers on */
    size_t stride;
} range;

/* `at`, for every part, from at most DECODE_GROUP of the z, which begin `offset` before it.
 * `weights` has a row of `row` numbers per part. */
static void decode_block(const kernel *with, const layout *cut, range at, size_t offset,
                         const float *const *z, const float *weights, size_t row, size_t group,
                         kernel_mode mode)
{
    const float *in[DECODE_GROUP];
    for (size_t j = 0; j < group; j++)
        in[j] = z[j] + offset;
    for (uint32_t part = 0; part < cut->parts; part++) {
        size_t exists = layout_exists(cut, part, at.first, at.length);
        if (exists == 0)
            break; /* later parts have no more */
        with->combine(at.out + part * at.stride, in, weights + part * row, group, exists, mode);
    }
}

static void decode_parts(const kernel *with, const layout *cut, range all, const float *const *z,
                         const float *weights, size_t count, kernel_mode wanted)
{
    for (size_t offset = 0; offset < all.length; offset += DECODE_BLOCK) {
        size_t left = all.length - offset;
        range block = {all.first + offset, left < DECODE_BLOCK ? left : DECODE_BLOCK,
                       all.out + offset, all.stride};
        kernel_mode mode = count > DECODE_GROUP && wanted == KERNEL_STREAM ? KERNEL_SET : wanted;
        size_t done = 0;
        do { /* once even without any z, which makes the range zero */
            size_t group = count - done < DECODE_GROUP ? count - done : DECODE_GROUP;
            decode_block(with, cut, block, offset, z + done, weights + done, count, group, mode);
            mode = KERNEL_ADD;
            done += group;
        } while (done < count);
    }
}

void transfer_decode_range(const kernel *with, const layout *cut, size_t first, size_t length,
                           const float *const *z, const float *weights, size_t count,
                           kernel_mode mode, float *out, size_t stride)
{
    if (cut->parts > 1)
        decode_parts(with, cut, (range){first, length, out, stride}, z, weights, count, mode);
    else
        with->combine(out, z, weights, count, length, mode);
}

void transfer_decode(const kernel *with, const layout *cut, uint32_t stripe, const float *const *z,
                     const float *weights, size_t count, bool add, float *estimate)
{
    size_t first = layout_stripe_start(cut, stripe);
    transfer_decode_range(with, cut, first, layout_stripe_length(cut, stripe), z, weights, count,
                          add ? KERNEL_ADD : kernel_overwrite(cut->dimension), estimate + first,
                          cut->part_length);
}
