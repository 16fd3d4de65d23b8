/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_int.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/bytes.h"

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

/* q[i]: number i in steps; `odd`: it is not finite. Gives back the block's scale. */
static float round_block(const float *numbers, size_t count, int most, int odd, uint64_t key,
                         uint32_t first, int8_t *q)
{
    bool finite;
    float inverse, step = int_step(largest_of(numbers, count, &finite), most, &inverse);
    const float top = (float)most;
    for (size_t i = 0; i < count; i++) {
        float x = floorf(numbers[i] * inverse + draw(key, first + (uint32_t)i));
        bool good = finite || fabsf(numbers[i]) <= FLT_MAX;
        q[i] = (int8_t)(!good ? (float)odd : x < -top ? -top : x > top ? top : x);
    }
    return finite ? step : -step;
}

/* out[i] += q[i] times the scale and the weight. */
static void add_block(float scale, const int8_t *q, size_t count, int odd, float weight, float *out)
{
    float factor = weight * fabsf(scale);
    for (size_t i = 0; i < count; i++)
        out[i] += factor * q[i];
    for (size_t i = 0; signbit(scale) && i < count; i++)
        out[i] = q[i] == odd ? NAN : out[i];
}

void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes)
{
    float scale = round_block(numbers, count, INT8_MOST, INT8_ODD, key, first,
                              (int8_t *)(bytes + INT_SCALE_BYTES));
    bytes_put_f32(bytes, scale);
}

void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    add_block(bytes_get_f32(bytes), (const int8_t *)(bytes + INT_SCALE_BYTES), count, INT8_ODD,
              weight, out);
}

void int4_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes)
{
    int8_t q[INT_BLOCK + 1];
    uint8_t *at =
        bytes_put_f32(bytes, round_block(numbers, count, INT4_MOST, INT4_ODD, key, first, q));
    q[count] = 0; /* beside the last of an odd number of them */
    for (size_t i = 0; i < count; i += 2)
        *at++ = (uint8_t)((q[i] & 0xf) | (q[i + 1] & 0xf) << 4);
}

void int4_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    int8_t q[INT_BLOCK];
    const uint8_t *at = bytes + INT_SCALE_BYTES;
    for (size_t i = 0; i < count; i++)
        q[i] = (int8_t)(((at[i / 2] >> i % 2 * 4 & 0xf) ^ 8) - 8);
    add_block(bytes_get_f32(bytes), q, count, INT4_ODD, weight, out);
}

static size_t block_at(size_t count, size_t first)
{
    return count - first < INT_BLOCK ? count - first : INT_BLOCK;
}

static void put8(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int8_put_block(numbers + i, block_at(count, i), key, (uint32_t)i, bytes);
        bytes += INT_SCALE_BYTES + block_at(count, i);
    }
}

static void add8(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int8_add_block(bytes, block_at(count, i), weight, out + i);
        bytes += INT_SCALE_BYTES + block_at(count, i);
    }
}

static void put4(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        int4_put_block(numbers + i, block_at(count, i), key, (uint32_t)i, bytes);
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

static const compress_int reference = {"reference", {put8, add8}, {put4, add4}};

#ifdef __x86_64__
static const compress_int avx2 = {
    "avx2", {int8_put_avx2, int8_add_avx2}, {int4_put_avx2, int4_add_avx2}};

const compress_int *compress_int_at(size_t index)
{
    bool wide = __builtin_cpu_supports("avx2");
    return index == 0 ? &reference : index == 1 && wide ? &avx2 : NULL;
}
#else
const compress_int *compress_int_at(size_t index)
{
    return index == 0 ? &reference : NULL;
}
#endif

const compress_int *compress_int_best(void)
{
    const compress_int *best = compress_int_at(1);
    return best != NULL ? best : &reference;
}
