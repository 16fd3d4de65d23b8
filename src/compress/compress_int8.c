/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_int8.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/bytes.h"

enum { NOT_FINITE = -128 };

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

float int8_step(float most, float *inverse)
{
    float step = most / INT8_MOST;
    if (step < FLT_MIN)
        step = 0;
    *inverse = step > 0 ? 1 / step : 0;
    return step;
}

static int8_t rounded(float number, float inverse, float chance)
{
    float q = floorf(number * inverse + chance);
    return (int8_t)(q < -INT8_MOST ? -INT8_MOST : q > INT8_MOST ? INT8_MOST : q);
}

void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes)
{
    bool finite;
    float inverse, step = int8_step(largest_of(numbers, count, &finite), &inverse);
    int8_t *q = (int8_t *)bytes_put_f32(bytes, finite ? step : -step);
    for (size_t i = 0; i < count; i++)
        q[i] = finite || fabsf(numbers[i]) <= FLT_MAX
                   ? rounded(numbers[i], inverse, draw(key, first + (uint32_t)i))
                   : NOT_FINITE;
}

void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    float step = bytes_get_f32(bytes);
    const int8_t *q = (const int8_t *)(bytes + INT8_SCALE_BYTES);
    float factor = weight * fabsf(step);
    for (size_t i = 0; i < count; i++)
        out[i] += factor * q[i];
    for (size_t i = 0; signbit(step) && i < count; i++)
        out[i] = q[i] == NOT_FINITE ? NAN : out[i];
}

static void put(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT8_BLOCK) {
        size_t some = count - i < INT8_BLOCK ? count - i : INT8_BLOCK;
        int8_put_block(numbers + i, some, key, (uint32_t)i, bytes);
        bytes += INT8_SCALE_BYTES + some;
    }
}

static void add(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT8_BLOCK) {
        size_t some = count - i < INT8_BLOCK ? count - i : INT8_BLOCK;
        int8_add_block(bytes, some, weight, out + i);
        bytes += INT8_SCALE_BYTES + some;
    }
}

static const compress_int8 reference = {"reference", put, add};

#ifdef __x86_64__
static const compress_int8 avx2 = {"avx2", int8_put_avx2, int8_add_avx2};

const compress_int8 *compress_int8_at(size_t index)
{
    bool wide = __builtin_cpu_supports("avx2");
    return index == 0 ? &reference : index == 1 && wide ? &avx2 : NULL;
}
#else
const compress_int8 *compress_int8_at(size_t index)
{
    return index == 0 ? &reference : NULL;
}
#endif

const compress_int8 *compress_int8_best(void)
{
    const compress_int8 *best = compress_int8_at(1);
    return best != NULL ? best : &reference;
}
