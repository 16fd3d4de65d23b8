/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms over any number of numbers, for a file that has defined, of its instruction set:
 *
 *   WIDE, WIDE_INLINE   what precedes a function that uses it, and one that must be inlined
 *   LINE                numbers that BF16 takes at once, and
 *   put_line(numbers, bytes), add_line(bytes, weight, out)    these
 *   largest_bits(numbers)    of a whole block the largest magnitude, as bits: without their sign
 *                            these are ordered as the numbers are, and what is not finite is above
 *   round8(numbers, inverse, key, first, bytes)    a block's bytes behind the scale;
 *   round4(numbers, inverse, bytes)                they ask for later numbers by ask_ahead
 *   add8(bytes, factor, out), add4(bytes, factor, out)
 *
 * Blocks that are whole and finite are theirs, all others the reference's.
 */
#ifndef COMPRESS_COMPRESS_WIDE_H
#define COMPRESS_COMPRESS_WIDE_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compress/compress.h"
#include "compress/compress_blocks.h"
#include "compress/compress_products.h"

typedef enum width { EIGHT, FOUR } width; /* bits a number: known wherever these are inlined */

static WIDE_INLINE size_t block_bytes(width bits, size_t count)
{
    return bits == EIGHT ? int8_block_bytes(count) : int4_block_bytes(count);
}

/* A whole block. */
static WIDE_INLINE float largest_of(const float *numbers)
{
    uint32_t bits = largest_bits(numbers);
    float most;
    memcpy(&most, &bits, sizeof(most));
    return most;
}

static WIDE_INLINE void put_blocks(width bits, const float *numbers, size_t count, uint64_t key,
                                   uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        const size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        const float largest = some == INT_BLOCK ? largest_of(numbers + i) : INFINITY;
        if (largest <= FLT_MAX) {
            const int most = bits == EIGHT ? INT8_MOST : INT4_MOST;
            float inverse, step = int_step(largest, most, &inverse);
            uint8_t *at = bytes_put_f32(bytes, step);
            if (bits == EIGHT)
                round8(numbers + i, inverse, key, (uint32_t)i, at);
            else
                round4(numbers + i, inverse, at);
        } else if (bits == EIGHT) {
            int8_put_block(numbers + i, some, key, (uint32_t)i, bytes);
        } else {
            int4_put_block(numbers + i, some, bytes);
        }
        bytes += block_bytes(bits, some);
    }
}

static WIDE_INLINE void add_blocks(width bits, const uint8_t *bytes, size_t count, float weight,
                                   float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        const size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        const float step = bytes_get_f32(bytes);
        const uint8_t *at = bytes + INT_SCALE_BYTES;
        if (some < INT_BLOCK || signbit(step))
            (bits == EIGHT ? int8_add_block : int4_add_block)(bytes, some, weight, out + i);
        else if (bits == EIGHT)
            add8(at, weight * step, out + i);
        else
            add4(at, weight * step, out + i);
        bytes += block_bytes(bits, some);
    }
}

WIDE static void put_bf16(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    (void)key;
    const size_t whole = count - count % LINE;
    for (size_t i = 0; i < whole; i += LINE)
        put_line(numbers + i, bytes + i * HALF_BYTES);
    bf16_put(numbers + whole, count - whole, bytes + whole * HALF_BYTES);
}

WIDE static void add_bf16(const uint8_t *bytes, size_t count, float weight, float *out)
{
    const size_t whole = count - count % LINE;
    for (size_t i = 0; i < whole; i += LINE)
        add_line(bytes + i * HALF_BYTES, weight, out + i);
    bf16_add(bytes + whole * HALF_BYTES, count - whole, weight, out + whole);
}

WIDE static void put_int8(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    put_blocks(EIGHT, numbers, count, key, bytes);
}

WIDE static void add_int8(const uint8_t *bytes, size_t count, float weight, float *out)
{
    add_blocks(EIGHT, bytes, count, weight, out);
}

WIDE static void put_int4(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    put_blocks(FOUR, numbers, count, key, bytes);
}

WIDE static void add_int4(const uint8_t *bytes, size_t count, float weight, float *out)
{
    add_blocks(FOUR, bytes, count, weight, out);
}

#endif
