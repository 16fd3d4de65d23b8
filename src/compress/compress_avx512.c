/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/compress_blocks.h"

#define WIDE __attribute__((target("avx512f,avx512bw")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx512f,avx512bw")))

enum { LINE = 16 };

static WIDE_INLINE uint32_t largest_bits(const float *numbers)
{
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
    __m512i most = _mm512_setzero_si512(), other = most;
    for (size_t i = 0; i < INT_BLOCK; i += 32) {
        most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_loadu_si512(numbers + i), magnitude));
        other = _mm512_max_epu32(other,
                                 _mm512_and_si512(_mm512_loadu_si512(numbers + i + 16), magnitude));
    }
    return _mm512_reduce_max_epu32(_mm512_max_epu32(most, other));
}

/* ---- BF16 ---- */

static WIDE_INLINE void put_line(const float *numbers, uint8_t *bytes)
{
    const __m512 whole = _mm512_loadu_ps(numbers);
    const __m512i bits = _mm512_castps_si512(whole), upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(whole, whole, _CMP_UNORD_Q);
    __m512i half = _mm512_srli_epi32(up, 16);
    half = _mm512_mask_or_epi32(half, nan, upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)bytes, _mm512_cvtepi32_epi16(half));
}

/* out[0..15] += more. */
static WIDE_INLINE void add_sixteen(__m512 more, float *out)
{
    _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), more));
}

static WIDE_INLINE void add_line(const uint8_t *bytes, float weight, float *out)
{
    __m256i halves = _mm256_loadu_si256((const __m256i *)bytes);
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
    add_sixteen(_mm512_mul_ps(_mm512_set1_ps(weight), _mm512_castsi512_ps(bits)), out);
}

/* ---- INT8 ---- */

/* As the reference's draw, for sixteen indices. */
static WIDE_INLINE __m512i draw(uint64_t key, __m512i index)
{
    const __m512i one = _mm512_set1_epi32(0x7feb352d);
    const __m512i other = _mm512_set1_epi32((int32_t)UINT32_C(0x846ca68b));
    const __m512i upper = _mm512_set1_epi32((int32_t)(uint32_t)(key >> 32));
    __m512i x = _mm512_xor_si512(index, _mm512_set1_epi32((int32_t)(uint32_t)key));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), one);
    x = _mm512_add_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)), upper);
    x = _mm512_mullo_epi32(x, other);
    return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
}

/* Sixteen numbers in steps, each in 32 bits; those beyond a byte remain to be cut. A chance is
 * exact, so that adding it by FMA rounds but the sum, as the reference does. */
static WIDE_INLINE __m512i rounded(const float *numbers, __m512 inverse, __m512i chance)
{
    __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(numbers), inverse);
    __m512 moved = _mm512_fmadd_ps(_mm512_cvtepi32_ps(chance), _mm512_set1_ps(0x1p-16F), scaled);
    return _mm512_cvt_roundps_epi32(moved, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Four times sixteen, a byte each, in their order. */
static WIDE_INLINE __m512i pack(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i order = /* packing is within quarters */
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i all = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    return _mm512_permutexvar_epi32(order, all);
}

static WIDE_INLINE void round8(const float *numbers, float inverse, uint64_t key, uint32_t first,
                               uint8_t *bytes)
{
    const __m512 wide = _mm512_set1_ps(inverse);
    const __m512i least = _mm512_set1_epi8(-INT8_MOST), lower = _mm512_set1_epi32(0xffff);
    const __m512i next = _mm512_set1_epi32(16);
    __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    index = _mm512_add_epi32(index, _mm512_set1_epi32((int32_t)(first / 2)));
    for (size_t i = 0; i < INT_BLOCK; i += 64) {
        const float *in = numbers + i;
        ask_ahead(in, 64);
        __m512i a = draw(key, index), b = draw(key, _mm512_add_epi32(index, next));
        __m512i q = pack(rounded(in, wide, _mm512_and_si512(a, lower)),
                         rounded(in + 16, wide, _mm512_srli_epi32(a, 16)),
                         rounded(in + 32, wide, _mm512_and_si512(b, lower)),
                         rounded(in + 48, wide, _mm512_srli_epi32(b, 16)));
        _mm512_storeu_si512(bytes + i, _mm512_max_epi8(q, least));
        index = _mm512_add_epi32(index, _mm512_set1_epi32(32));
    }
}

static WIDE_INLINE void add8(const uint8_t *bytes, float factor, float *out)
{
    const __m512 wide = _mm512_set1_ps(factor);
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        __m128i q = _mm_loadu_si128((const __m128i *)(bytes + i));
        add_sixteen(_mm512_mul_ps(wide, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))), out + i);
    }
}

/* ---- INT4 ---- */

/* The codes of sixteen numbers, each in 32 bits. */
static WIDE_INLINE __m512i codes(const float *numbers, __m512 inverse)
{
    const __m512i bits = _mm512_loadu_si512(numbers);
    __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX));
    size = _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(size), inverse));
    __m512i level = _mm512_srli_epi32(_mm512_add_epi32(size, _mm512_set1_epi32(0x400000)), 23);
    level =
        _mm512_max_epi32(_mm512_sub_epi32(level, _mm512_set1_epi32(126)), _mm512_setzero_si512());
    level = _mm512_min_epi32(level, _mm512_set1_epi32(INT4_LEVELS - 1));
    __mmask16 some = _mm512_test_epi32_mask(level, level);
    __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 28), _mm512_set1_epi32(INT4_SIGN));
    return _mm512_mask_or_epi32(level, some, level, sign);
}

/* Of 64 codes, a byte each, each second one into the upper half of that before. */
static WIDE_INLINE void round4(const float *numbers, float inverse, uint8_t *bytes)
{
    const __m512 wide = _mm512_set1_ps(inverse);
    const __m512i places = _mm512_set1_epi16(1 | 16 << 8);
    for (size_t i = 0; i < INT_BLOCK; i += 64) {
        const float *in = numbers + i;
        ask_ahead(in, 64);
        __m512i all =
            pack(codes(in, wide), codes(in + 16, wide), codes(in + 32, wide), codes(in + 48, wide));
        __m256i packed = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(all, places));
        _mm256_storeu_si256((__m256i *)(bytes + i / 2), packed);
    }
}

static WIDE_INLINE void add4(const uint8_t *bytes, float factor, float *out)
{
    float each[2 * INT4_LEVELS];
    int4_numbers(factor, each);
    const __m512 numbers = _mm512_loadu_ps(each);
    for (size_t i = 0; i < INT_BLOCK; i += 16) {
        __m128i pairs = _mm_loadl_epi64((const __m128i *)(bytes + i / 2));
        __m128i codes = _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
        add_sixteen(_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), numbers), out + i);
    }
}

#include "compress/compress_wide.h"

const compress_kernel compress_avx512 = {
    "avx512",
    {put_bf16, add_bf16},
    {put_int8, add_int8},
    {put_int4, add_int4},
    {put_left, put_right, add_product},
};
