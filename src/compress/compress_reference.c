/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "compress/compress.h"
#include "compress/compress_blocks.h"

#define WIDE
#define WIDE_INLINE inline
#include "compress/compress_products.h"

static uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* ---- as they are ---- */

uint8_t *plain_put(const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i++)
        bytes_put_f32(bytes + i * sizeof(float), numbers[i]);
    return bytes + count * sizeof(float);
}

const uint8_t *plain_add(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] += weight * bytes_get_f32(bytes + i * sizeof(float));
    return bytes + count * sizeof(float);
}

/* ---- BF16 ---- */

static uint16_t to_half(float number)
{
    uint32_t bits = bits_of(number);
    if (isnan(number))
        return (uint16_t)(bits >> 16 | 0x40); /* a quiet one: rounding could make it infinite */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_half(const uint8_t *bytes)
{
    uint32_t bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 24;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

void bf16_put(const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i++)
        bytes_put(bytes + i * HALF_BYTES, to_half(numbers[i]), HALF_BYTES);
}

void bf16_add(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] += weight * from_half(bytes + i * HALF_BYTES);
}

/* ---- INT8 and INT4 ---- */

/* The index-th number that the key draws, the same in whatever order they are drawn: C. Wellons's
 * lowbias32 of the index and half of the key, with the other half amid. */
static uint32_t draw(uint64_t key, uint32_t index)
{
    uint32_t x = index ^ (uint32_t)key;
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x = ((x ^ x >> 15) + (uint32_t)(key >> 32)) * UINT32_C(0x846ca68b);
    return x ^ x >> 16;
}

/* The chance of the index-th number, in [0, 1) by steps of 2^-16. Each draw is for two numbers, 16
 * apart, as that many are rounded at once. */
static float chance(uint64_t key, uint32_t index)
{
    uint32_t both = draw(key, index / 32 * 16 + index % 16);
    return (float)(index % 32 < 16 ? both & 0xffff : both >> 16) * 0x1p-16F;
}

/* The largest magnitude of finite numbers; whether all are. */
static float largest_of(const float *numbers, size_t count, bool *finite)
{
    float most = 0;
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        float size = fabsf(numbers[i]);
        bool good = size <= FLT_MAX;
        all = all && good;
        most = good && size > most ? size : most;
    }
    *finite = all;
    return most;
}

float int_step(float largest, int most, float *inverse)
{
    float step = largest / (float)most;
    if (step < FLT_MIN)
        step = 0;
    *inverse = step > 0 ? 1 / step : 0;
    return step;
}

void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes)
{
    bool finite;
    float inverse, step = int_step(largest_of(numbers, count, &finite), INT8_MOST, &inverse);
    const float top = INT8_MOST;
    int8_t *q = (int8_t *)bytes_put_f32(bytes, finite ? step : -step);
    for (size_t i = 0; i < count; i++) {
        float x = floorf(numbers[i] * inverse + chance(key, first + (uint32_t)i));
        bool good = finite || fabsf(numbers[i]) <= FLT_MAX;
        q[i] = (int8_t)(!good ? INT8_ODD : x < -top ? -top : x > top ? top : x);
    }
}

void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    const float scale = bytes_get_f32(bytes), factor = weight * fabsf(scale);
    const int8_t *q = (const int8_t *)(bytes + INT_SCALE_BYTES);
    for (size_t i = 0; i < count; i++)
        out[i] += factor * q[i];
    for (size_t i = 0; signbit(scale) && i < count; i++)
        out[i] = q[i] == INT8_ODD ? NAN : out[i];
}

/* From 1.5 times a power of two on half a mantissa more is in the next exponent. */
static uint32_t to_level(float size, float inverse)
{
    const int32_t level = (int32_t)((bits_of(size * inverse) + 0x400000) >> 23) - 126;
    return level < 0 ? 0 : level >= INT4_LEVELS ? INT4_LEVELS - 1 : (uint32_t)level;
}

void int4_put_block(const float *numbers, size_t count, uint8_t *bytes)
{
    bool finite;
    float inverse, step = int_step(largest_of(numbers, count, &finite), INT4_MOST, &inverse);
    uint8_t *at = bytes_put_f32(bytes, finite ? step : -step);
    memset(at, 0, int4_block_bytes(count) - INT_SCALE_BYTES);
    for (size_t i = 0; i < count; i++) {
        const float size = fabsf(numbers[i]);
        uint32_t code = size <= FLT_MAX ? to_level(size, inverse) : INT4_ODD;
        code |= code > 0 && signbit(numbers[i]) ? INT4_SIGN : 0;
        at[i / 2] = (uint8_t)(at[i / 2] | code << i % 2 * 4);
    }
}

void int4_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    const float scale = bytes_get_f32(bytes), factor = weight * fabsf(scale);
    const uint8_t *at = bytes + INT_SCALE_BYTES;
    float each[2 * INT4_LEVELS];
    int4_numbers(factor, each);
    if (signbit(scale))
        each[INT4_ODD] = NAN;
    for (size_t i = 0; i < count; i++)
        out[i] += each[at[i / 2] >> i % 2 * 4 & 0xf];
}

static size_t block_at(size_t count, size_t first)
{
    return count - first < INT_BLOCK ? count - first : INT_BLOCK;
}

static void put16(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    (void)key;
    bf16_put(numbers, count, bytes);
}

static void put8(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int8_put_block(numbers + i, block_at(count, i), key, (uint32_t)i, bytes);
        bytes += int8_block_bytes(block_at(count, i));
    }
}

static void add8(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int8_add_block(bytes, block_at(count, i), weight, out + i);
        bytes += int8_block_bytes(block_at(count, i));
    }
}

static void put4(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    (void)key;
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int4_put_block(numbers + i, block_at(count, i), bytes);
        bytes += int4_block_bytes(block_at(count, i));
    }
}

static void add4(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int4_add_block(bytes, block_at(count, i), weight, out + i);
        bytes += int4_block_bytes(block_at(count, i));
    }
}

const compress_kernel compress_reference = {
    "reference", {put16, bf16_add}, {put8, add8}, {put4, add4}, {put_left, put_right, add_product},
};
