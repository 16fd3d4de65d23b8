/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress.h"

#include "compress/compress_blocks.h"
#include "compress/compress_kernel.h"
#include "compress/compress_lowrank.h"
#include "compress/compress_sign.h"
#include "compress/compress_topk.h"

enum {
    NUMBER_BYTES = 4,
    PIECE = 16 * INT_BLOCK, /* as float32 16 KB, which stay in the nearest cache */
};

/* How many of `count` numbers are rounded: those before the exact ones. */
static size_t rounded_of(compress_form form, size_t count)
{
    return form.exact < count ? count - form.exact : 0;
}

static size_t rounded_bytes(compress_form form, size_t count)
{
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        return count * HALF_BYTES;
    case TARRY_COMPRESS_INT8:
        return count + (count + INT_BLOCK - 1) / INT_BLOCK * INT_SCALE_BYTES;
    case TARRY_COMPRESS_INT4:
        return int4_bytes(count);
    case TARRY_COMPRESS_TOPK:
        return topk_bytes(form.share, count);
    case TARRY_COMPRESS_SIGN:
        return sign_bytes(count);
    case TARRY_COMPRESS_POWERSGD:
        return lowrank_bytes(&form.low, count);
    default:
        return count * NUMBER_BYTES;
    }
}

size_t compress_bytes(compress_form form, size_t count)
{
    size_t rounded = rounded_of(form, count);
    return rounded_bytes(form, rounded) + (count - rounded) * NUMBER_BYTES;
}

size_t compress_piece(compress_form form)
{
    return form.kind == TARRY_COMPRESS_POWERSGD ? SIZE_MAX
           : form.kind == TARRY_COMPRESS_TOPK   ? TOPK_BLOCK
                                                : PIECE;
}

/* The finalizer of MurmurHash3, a bijection of 64 bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

uint64_t compress_key(uint64_t seed, uint64_t round, uint32_t attempt, uint32_t worker,
                      uint32_t stripe)
{
    uint64_t key = mix(mix(seed) + round);
    key = mix(key + attempt);
    return mix(key + ((uint64_t)worker << 32 | stripe));
}

void compress_encode(compress_form form, const float *numbers, size_t count, uint64_t key,
                     uint8_t *bytes)
{
    const size_t rounded = rounded_of(form, count);
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        compress_kernel_best()->bf16.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_INT8:
        compress_kernel_best()->int8.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_INT4:
        compress_kernel_best()->int4.put(numbers, rounded, key, bytes);
        break;
    case TARRY_COMPRESS_TOPK:
        topk_put(form.share, numbers, rounded, bytes);
        break;
    case TARRY_COMPRESS_SIGN:
        sign_put(numbers, rounded, bytes);
        break;
    case TARRY_COMPRESS_POWERSGD:
        lowrank_put(&form.low, &compress_kernel_best()->lowrank, numbers, rounded, bytes);
        break;
    default:
        plain_put(numbers, rounded, bytes);
        break;
    }
    plain_put(numbers + rounded, count - rounded, bytes + rounded_bytes(form, rounded));
}

void compress_decode_add(compress_form form, const uint8_t *bytes, size_t count, float weight,
                         float *out)
{
    const size_t rounded = rounded_of(form, count);
    switch (form.kind) {
    case TARRY_COMPRESS_BF16:
        compress_kernel_best()->bf16.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_INT8:
        compress_kernel_best()->int8.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_INT4:
        compress_kernel_best()->int4.add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_TOPK:
        topk_add(form.share, bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_SIGN:
        sign_add(bytes, rounded, weight, out);
        break;
    case TARRY_COMPRESS_POWERSGD:
        lowrank_add(&form.low, &compress_kernel_best()->lowrank, bytes, rounded, weight, out);
        break;
    default:
        plain_add(bytes, rounded, weight, out);
        break;
    }
    plain_add(bytes + rounded_bytes(form, rounded), count - rounded, weight, out + rounded);
}

void compress_decode_add_some(compress_form form, const uint8_t *bytes, size_t count, size_t first,
                              size_t some, float weight, float *out)
{
    const size_t before = compress_bytes(compress_within(form, count, 0, first), first);
    compress_decode_add(compress_within(form, count, first, some), bytes + before, some, weight,
                        out);
}
