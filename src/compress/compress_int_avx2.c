/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_int.h"

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"

#define WIDE __attribute__((target("avx2")))
#define WIDE_INLINE static inline __attribute__((always_inline, target("avx2")))

/* Of a whole block, as bits: with the sign away these are ordered as the numbers are. */
WIDE_INLINE uint32_t largest_bits(const float *numbers)
{
    const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < INT_BLOCK; i += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(numbers + i));
        most = _mm256_max_epu32(most, _mm256_and_si256(bits, magnitude));
    }
    uint32_t lane[8], all = 0;
    _mm256_storeu_si256((__m256i *)lane, most);
    for (size_t i = 0; i < 8; i++)
        all = lane[i] > all ? lane[i] : all;
    return all;
}

/* As the reference's draw, for eight indices. */
WIDE_INLINE __m256 draw(uint64_t key, __m256i index)
{
    const __m256i one = _mm256_set1_epi32(0x7feb352d);
    const __m256i other = _mm256_set1_epi32((int32_t)UINT32_C(0x846ca68b));
    const __m256i upper = _mm256_set1_epi32((int32_t)(uint32_t)(key >> 32));
    __m256i x = _mm256_xor_si256(index, _mm256_set1_epi32((int32_t)(uint32_t)key));
    for (int i = 0; i < 2; i++) {
        x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), one);
        x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), other);
        x = _mm256_add_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), upper);
    }
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(x, 8)), _mm256_set1_ps(0x1p-24F));
}

/* Eight numbers in steps, each in 32 bits. */
WIDE_INLINE __m256i rounded(const float *numbers, __m256 inverse, __m256 most, uint64_t key,
                            uint32_t first)
{
    const __m256 least = _mm256_sub_ps(_mm256_setzero_ps(), most);
    const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 chance = draw(key, _mm256_add_epi32(_mm256_set1_epi32((int32_t)first), step));
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(numbers), inverse);
    __m256 q = _mm256_floor_ps(_mm256_add_ps(scaled, chance));
    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(q, most), least));
}

/* The same of 32 numbers, a byte each. */
WIDE_INLINE __m256i rounded_bytes(const float *numbers, __m256 inverse, __m256 most, uint64_t key,
                                  uint32_t first)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing is within halves */
    __m256i a = rounded(numbers, inverse, most, key, first);
    __m256i b = rounded(numbers + 8, inverse, most, key, first + 8);
    __m256i c = rounded(numbers + 16, inverse, most, key, first + 16);
    __m256i d = rounded(numbers + 24, inverse, most, key, first + 24);
    __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(all, order);
}

/* The largest magnitude of a whole block; not finite: that is not one of finite numbers. */
WIDE_INLINE float largest_of(const float *numbers, size_t count)
{
    uint32_t bits = count == INT_BLOCK ? largest_bits(numbers) : UINT32_MAX;
    float most;
    memcpy(&most, &bits, sizeof(most));
    return most;
}

/* ---- INT8 ---- */

/* A whole block of finite numbers. */
WIDE_INLINE void put8_block(const float *numbers, float largest, uint64_t key, uint32_t first,
                            uint8_t *bytes)
{
    float inverse;
    uint8_t *at = bytes_put_f32(bytes, int_step(largest, INT8_MOST, &inverse));
    const __m256 wide = _mm256_set1_ps(inverse), most = _mm256_set1_ps(INT8_MOST);
    for (uint32_t i = 0; i < INT_BLOCK; i += 32)
        _mm256_storeu_si256((__m256i *)(at + i),
                            rounded_bytes(numbers + i, wide, most, key, first + i));
}

WIDE void int8_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        float largest = largest_of(numbers + i, some);
        if (largest <= FLT_MAX)
            put8_block(numbers + i, largest, key, (uint32_t)i, bytes);
        else
            int8_put_block(numbers + i, some, key, (uint32_t)i, bytes);
        bytes += INT_SCALE_BYTES + some;
    }
}

/* out[0..7] += factor q. */
WIDE_INLINE void add_eight(__m128i q, __m256 factor, float *out)
{
    __m256 more = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), more));
}

WIDE_INLINE void add8_block(const uint8_t *bytes, float factor, float *out)
{
    const __m256 wide = _mm256_set1_ps(factor);
    for (size_t i = 0; i < INT_BLOCK; i += 8)
        add_eight(_mm_loadl_epi64((const __m128i *)(bytes + i)), wide, out + i);
}

WIDE void int8_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        float step = bytes_get_f32(bytes);
        if (some == INT_BLOCK && !signbit(step))
            add8_block(bytes + INT_SCALE_BYTES, weight * step, out + i);
        else
            int8_add_block(bytes, some, weight, out + i);
        bytes += INT_SCALE_BYTES + some;
    }
}

/* ---- INT4: two numbers a byte, the first in its lower half ---- */

WIDE_INLINE void put4_block(const float *numbers, float largest, uint64_t key, uint32_t first,
                            uint8_t *bytes)
{
    float inverse;
    uint8_t *at = bytes_put_f32(bytes, int_step(largest, INT4_MOST, &inverse));
    const __m256 wide = _mm256_set1_ps(inverse), most = _mm256_set1_ps(INT4_MOST);
    const __m256i half = _mm256_set1_epi8(0xf);
    const __m256i places = _mm256_set1_epi16(1 | 16 << 8);
    for (uint32_t i = 0; i < INT_BLOCK; i += 32) {
        __m256i q = rounded_bytes(numbers + i, wide, most, key, first + i);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(q, half), places);
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0xd8);
        _mm_storeu_si128((__m128i *)(at + i / 2), _mm256_castsi256_si128(packed));
    }
}

WIDE void int4_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        float largest = largest_of(numbers + i, some);
        if (largest <= FLT_MAX)
            put4_block(numbers + i, largest, key, (uint32_t)i, bytes);
        else
            int4_put_block(numbers + i, some, key, (uint32_t)i, bytes);
        bytes += int4_block_bytes(some);
    }
}

WIDE_INLINE void add4_block(const uint8_t *bytes, float factor, float *out)
{
    const __m256 wide = _mm256_set1_ps(factor);
    const __m128i half = _mm_set1_epi8(0xf), sign = _mm_set1_epi8(8);
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        __m128i pairs = _mm_loadl_epi64((const __m128i *)(bytes + i / 2));
        __m128i upper = _mm_and_si128(_mm_srli_epi16(pairs, 4), half);
        __m128i q = _mm_unpacklo_epi8(_mm_and_si128(pairs, half), upper);
        q = _mm_sub_epi8(_mm_xor_si128(q, sign), sign);
        add_eight(q, wide, out + i);
        add_eight(_mm_srli_si128(q, 8), wide, out + i + 8);
    }
}

WIDE void int4_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT_BLOCK) {
        size_t some = count - i < INT_BLOCK ? count - i : INT_BLOCK;
        float step = bytes_get_f32(bytes);
        if (some == INT_BLOCK && !signbit(step))
            add4_block(bytes + INT_SCALE_BYTES, weight * step, out + i);
        else
            int4_add_block(bytes, some, weight, out + i);
        bytes += int4_block_bytes(some);
    }
}
