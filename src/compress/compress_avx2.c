/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/compress_blocks.h"

#define WIDE __attribute__((target("avx2")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx2")))

enum { LINE = 16 };

static WIDE_INLINE uint32_t largest_bits(const float *numbers)
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

/* ---- BF16 ---- */

/* Eight numbers, each in 32 bits. */
static WIDE_INLINE __m256i to_halves(const float *numbers)
{
    const __m256 whole = _mm256_loadu_ps(numbers);
    const __m256i bits = _mm256_castps_si256(whole), upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(whole, whole, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet, nan);
}

static WIDE_INLINE void put_line(const float *numbers, uint8_t *bytes)
{
    __m256i both = _mm256_packus_epi32(to_halves(numbers), to_halves(numbers + 8));
    _mm256_storeu_si256((__m256i *)bytes, _mm256_permute4x64_epi64(both, 0xd8));
}

/* out[0..7] += more. */
static WIDE_INLINE void add_eight(__m256 more, float *out)
{
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), more));
}

static WIDE_INLINE void add_line(const uint8_t *bytes, float weight, float *out)
{
    const __m256 wide = _mm256_set1_ps(weight);
    for (size_t i = 0; i < LINE; i += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(bytes + i * HALF_BYTES));
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
        add_eight(_mm256_mul_ps(wide, _mm256_castsi256_ps(bits)), out + i);
    }
}

/* ---- INT8 ---- */

/* As the reference's draw, for eight indices. */
static WIDE_INLINE __m256i draw(uint64_t key, __m256i index)
{
    const __m256i one = _mm256_set1_epi32(0x7feb352d);
    const __m256i other = _mm256_set1_epi32((int32_t)UINT32_C(0x846ca68b));
    const __m256i upper = _mm256_set1_epi32((int32_t)(uint32_t)(key >> 32));
    __m256i x = _mm256_xor_si256(index, _mm256_set1_epi32((int32_t)(uint32_t)key));
    x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), one);
    x = _mm256_add_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), upper);
    x = _mm256_mullo_epi32(x, other);
    return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

/* Eight numbers in steps, each in 32 bits; those beyond a byte remain to be cut. */
static WIDE_INLINE __m256i rounded(const float *numbers, __m256 inverse, __m256i chance)
{
    __m256 moved = _mm256_mul_ps(_mm256_cvtepi32_ps(chance), _mm256_set1_ps(0x1p-16F));
    moved = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(numbers), inverse), moved);
    return _mm256_cvttps_epi32(_mm256_floor_ps(moved));
}

/* The same of four times eight numbers, a byte each, in their order. */
static WIDE_INLINE __m256i pack(__m256i a, __m256i b, __m256i c, __m256i d)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing is within halves */
    __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(all, order);
}

static WIDE_INLINE void round8(const float *numbers, float inverse, uint64_t key, uint32_t first,
                               uint8_t *bytes)
{
    const __m256 wide = _mm256_set1_ps(inverse);
    const __m256i least = _mm256_set1_epi8(-INT8_MOST), lower = _mm256_set1_epi32(0xffff);
    const __m256i eight = _mm256_set1_epi32(8);
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    index = _mm256_add_epi32(index, _mm256_set1_epi32((int32_t)(first / 2)));
    for (size_t i = 0; i < INT_BLOCK; i += 32) {
        const float *in = numbers + i;
        ask_ahead(in, 32);
        __m256i a = draw(key, index), b = draw(key, _mm256_add_epi32(index, eight));
        __m256i q = pack(rounded(in, wide, _mm256_and_si256(a, lower)),
                         rounded(in + 8, wide, _mm256_and_si256(b, lower)),
                         rounded(in + 16, wide, _mm256_srli_epi32(a, 16)),
                         rounded(in + 24, wide, _mm256_srli_epi32(b, 16)));
        _mm256_storeu_si256((__m256i *)(bytes + i), _mm256_max_epi8(q, least));
        index = _mm256_add_epi32(index, _mm256_set1_epi32(16));
    }
}

static WIDE_INLINE void add8(const uint8_t *bytes, float factor, float *out)
{
    const __m256 wide = _mm256_set1_ps(factor);
    for (size_t i = 0; i < INT_BLOCK; i += 8) {
        __m128i q = _mm_loadl_epi64((const __m128i *)(bytes + i));
        add_eight(_mm256_mul_ps(wide, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))), out + i);
    }
}

/* ---- INT4 ---- */

/* The codes of eight numbers, each in 32 bits. */
static WIDE_INLINE __m256i codes(const float *numbers, __m256 inverse)
{
    const __m256i zero = _mm256_setzero_si256(), bits = _mm256_loadu_si256((const void *)numbers);
    __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
    size = _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(size), inverse));
    __m256i level = _mm256_srli_epi32(_mm256_add_epi32(size, _mm256_set1_epi32(0x400000)), 23);
    level = _mm256_max_epi32(_mm256_sub_epi32(level, _mm256_set1_epi32(126)), zero);
    level = _mm256_min_epi32(level, _mm256_set1_epi32(INT4_LEVELS - 1));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 28), _mm256_set1_epi32(INT4_SIGN));
    return _mm256_or_si256(level, _mm256_and_si256(sign, _mm256_cmpgt_epi32(level, zero)));
}

/* Of 32 codes, a byte each, each second one into the upper half of that before. */
static WIDE_INLINE void round4(const float *numbers, float inverse, uint8_t *bytes)
{
    const __m256 wide = _mm256_set1_ps(inverse);
    const __m256i places = _mm256_set1_epi16(1 | 16 << 8);
    for (size_t i = 0; i < INT_BLOCK; i += 32) {
        const float *in = numbers + i;
        ask_ahead(in, 32);
        __m256i all =
            pack(codes(in, wide), codes(in + 8, wide), codes(in + 16, wide), codes(in + 24, wide));
        __m256i pairs = _mm256_maddubs_epi16(all, places);
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0xd8);
        _mm_storeu_si128((__m128i *)(bytes + i / 2), _mm256_castsi256_si128(packed));
    }
}

/* out[0..7] += the numbers that the lower halves of eight bytes name. */
static WIDE_INLINE void add_codes(__m128i bytes, __m256 sizes, float *out)
{
    const __m256i code = _mm256_cvtepu8_epi32(bytes);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(code, 3), 31);
    __m256 size = _mm256_permutevar8x32_ps(sizes, code);
    add_eight(_mm256_xor_ps(size, _mm256_castsi256_ps(sign)), out);
}

static WIDE_INLINE void add4(const uint8_t *bytes, float factor, float *out)
{
    float each[2 * INT4_LEVELS];
    int4_numbers(factor, each);
    const __m256 sizes = _mm256_loadu_ps(each); /* without a sign */
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        __m128i pairs = _mm_loadl_epi64((const __m128i *)(bytes + i / 2));
        __m128i code = _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
        add_codes(code, sizes, out + i);
        add_codes(_mm_srli_si128(code, 8), sizes, out + i + 8);
    }
}

#include "compress/compress_wide.h"

const compress_kernel compress_avx2 = {
    "avx2",
    {put_bf16, add_bf16},
    {put_int8, add_int8},
    {put_int4, add_int4},
    {put_left, put_right, add_product},
};
