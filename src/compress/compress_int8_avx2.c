/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_int8.h"

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
    for (size_t i = 0; i < INT8_BLOCK; i += 8) {
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

/* Eight bytes q, each in 32 bits. */
WIDE_INLINE __m256i rounded(const float *numbers, __m256 inverse, uint64_t key, uint32_t first)
{
    const __m256 most = _mm256_set1_ps(INT8_MOST), least = _mm256_set1_ps(-INT8_MOST);
    const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 chance = draw(key, _mm256_add_epi32(_mm256_set1_epi32((int32_t)first), step));
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(numbers), inverse);
    __m256 q = _mm256_floor_ps(_mm256_add_ps(scaled, chance));
    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(q, most), least));
}

/* A whole block of finite numbers. */
WIDE_INLINE void put_block(const float *numbers, float most, uint64_t key, uint32_t first,
                           uint8_t *bytes)
{
    float inverse;
    uint8_t *at = bytes_put_f32(bytes, int8_step(most, &inverse));
    const __m256 wide = _mm256_set1_ps(inverse);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing is within halves */
    for (uint32_t i = 0; i < INT8_BLOCK; i += 32) {
        __m256i a = rounded(numbers + i, wide, key, first + i);
        __m256i b = rounded(numbers + i + 8, wide, key, first + i + 8);
        __m256i c = rounded(numbers + i + 16, wide, key, first + i + 16);
        __m256i d = rounded(numbers + i + 24, wide, key, first + i + 24);
        __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        _mm256_storeu_si256((__m256i *)(at + i), _mm256_permutevar8x32_epi32(all, order));
    }
}

WIDE void int8_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += INT8_BLOCK) {
        size_t some = count - i < INT8_BLOCK ? count - i : INT8_BLOCK;
        uint32_t bits = some == INT8_BLOCK ? largest_bits(numbers + i) : UINT32_MAX;
        float most;
        memcpy(&most, &bits, sizeof(most));
        if (most <= FLT_MAX)
            put_block(numbers + i, most, key, (uint32_t)i, bytes);
        else
            int8_put_block(numbers + i, some, key, (uint32_t)i, bytes);
        bytes += INT8_SCALE_BYTES + some;
    }
}

WIDE_INLINE void add_block(const uint8_t *bytes, float factor, float *out)
{
    const __m256 wide = _mm256_set1_ps(factor);
    for (size_t i = 0; i < INT8_BLOCK; i += 8) {
        __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + i)));
        __m256 more = _mm256_mul_ps(wide, _mm256_cvtepi32_ps(q));
        _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), more));
    }
}

WIDE void int8_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += INT8_BLOCK) {
        size_t some = count - i < INT8_BLOCK ? count - i : INT8_BLOCK;
        float step = bytes_get_f32(bytes);
        if (some == INT8_BLOCK && !signbit(step))
            add_block(bytes + INT8_SCALE_BYTES, weight * step, out + i);
        else
            int8_add_block(bytes, some, weight, out + i);
        bytes += INT8_SCALE_BYTES + some;
    }
}
