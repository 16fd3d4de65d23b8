/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum {
    NUMBER_BYTES = 4,
    HALF_BYTES = 2,
    SCALE_BYTES = 4,
    MOST = 127,
    NOT_FINITE = -128,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t compress_bytes(tarry_compress form, size_t count)
{
    switch (form) {
    case TARRY_COMPRESS_BF16:
        return count * HALF_BYTES;
    case TARRY_COMPRESS_INT8:
        return count + (count + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK * SCALE_BYTES;
    default:
        return count * NUMBER_BYTES;
    }
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

/* The index-th number that the key draws, in [0, 1) by steps of 2^-24: the same in whatever order
 * they are drawn (the mixing is C. Wellons's lowbias32, twice). */
static float draw(uint64_t key, uint32_t index)
{
    uint32_t x = index ^ (uint32_t)key;
    for (int i = 0; i < 2; i++) {
        x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
        x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
        x = (x ^ x >> 16) + (uint32_t)(key >> 32);
    }
    return (float)(x >> 8) * 0x1p-24F;
}

/* ---- bf16 ---- */

static uint16_t to_half(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
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

/* ---- int8 ---- */

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

static int8_t rounded(float number, float inverse, float chance)
{
    float q = floorf(number * inverse + chance);
    return (int8_t)(q < -MOST ? -MOST : q > MOST ? MOST : q);
}

static void put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                      uint8_t *bytes)
{
    bool finite;
    float most = largest_of(numbers, count, &finite);
    float scale = most / MOST < FLT_MIN ? 0 : most / MOST;
    float inverse = scale > 0 ? 1 / scale : 0;
    bytes_put_f32(bytes, finite ? scale : -scale);
    int8_t *q = (int8_t *)(bytes + SCALE_BYTES);
    for (size_t i = 0; i < count; i++)
        q[i] = finite || fabsf(numbers[i]) <= FLT_MAX
                   ? rounded(numbers[i], inverse, draw(key, first + (uint32_t)i))
                   : NOT_FINITE;
}

static void add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    float scale = bytes_get_f32(bytes);
    const int8_t *q = (const int8_t *)(bytes + SCALE_BYTES);
    float factor = weight * fabsf(scale);
    for (size_t i = 0; i < count; i++)
        out[i] += factor * q[i];
    for (size_t i = 0; signbit(scale) && i < count; i++)
        out[i] = q[i] == NOT_FINITE ? NAN : out[i];
}

/* ---- all ---- */

void compress_encode(tarry_compress form, const float *numbers, size_t count, uint64_t key,
                     uint8_t *bytes)
{
    switch (form) {
    case TARRY_COMPRESS_BF16:
        for (size_t i = 0; i < count; i++)
            bytes_put(bytes + i * HALF_BYTES, to_half(numbers[i]), HALF_BYTES);
        break;
    case TARRY_COMPRESS_INT8:
        for (size_t i = 0; i < count; i += COMPRESS_BLOCK) {
            size_t some = smaller(count - i, COMPRESS_BLOCK);
            put_block(numbers + i, some, key, (uint32_t)i, bytes);
            bytes += SCALE_BYTES + some;
        }
        break;
    default:
        for (size_t i = 0; i < count; i++)
            bytes_put_f32(bytes + i * NUMBER_BYTES, numbers[i]);
        break;
    }
}

void compress_decode_add(tarry_compress form, const uint8_t *bytes, size_t count, float weight,
                         float *out)
{
    switch (form) {
    case TARRY_COMPRESS_BF16:
        for (size_t i = 0; i < count; i++)
            out[i] += weight * from_half(bytes + i * HALF_BYTES);
        break;
    case TARRY_COMPRESS_INT8:
        for (size_t i = 0; i < count; i += COMPRESS_BLOCK) {
            size_t some = smaller(count - i, COMPRESS_BLOCK);
            add_block(bytes, some, weight, out + i);
            bytes += SCALE_BYTES + some;
        }
        break;
    default:
        for (size_t i = 0; i < count; i++)
            out[i] += weight * bytes_get_f32(bytes + i * NUMBER_BYTES);
        break;
    }
}
