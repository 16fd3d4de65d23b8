/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "privacy/secure/ring.h"
#include "privacy/secure/ring_words.h"

#define WIDE __attribute__((target("avx2")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx2")))

enum { LINE = 8 };

/* Eight clamped numbers, and eight more counts of those that were not within the limit, each one
 * less: -1 is all ones. */
static WIDE_INLINE __m256 clamp(const float *numbers, __m256i limit, __m256i *clamped)
{
    const __m256i bits = _mm256_loadu_si256((const __m256i *)numbers);
    const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
    const __m256i finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), size);
    *clamped = _mm256_add_epi32(*clamped, _mm256_cmpgt_epi32(size, limit));
    __m256i most = _mm256_and_si256(_mm256_min_epu32(size, limit), finite);
    __m256i sign = _mm256_andnot_si256(_mm256_set1_epi32(INT32_MAX), bits);
    return _mm256_castsi256_ps(_mm256_or_si256(most, sign));
}

static WIDE_INLINE __m256i limit_of(const ring_scale *scale)
{
    return _mm256_castps_si256(_mm256_set1_ps(scale->limit));
}

/* Minus the sum of the eight counts. */
static WIDE_INLINE size_t count_of(__m256i clamped)
{
    uint32_t lane[LINE], all = 0;
    _mm256_storeu_si256((__m256i *)lane, clamped);
    for (size_t i = 0; i < LINE; i++)
        all -= lane[i];
    return all;
}

/* 2^f times a float is exact as long as it is no subnormal one, and those are 0 either way. */
static WIDE_INLINE void add_words32(__m256 numbers, __m256 step, uint8_t *words)
{
    const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(numbers, step));
    const __m256i old = _mm256_loadu_si256((const __m256i *)words);
    _mm256_storeu_si256((__m256i *)words, _mm256_add_epi32(old, whole));
}

/* Of a whole number x, |x| < 2^63: x = 2^32 h + l, each of which fits the fraction of a double. */
static WIDE_INLINE void add_words64(__m128 numbers, __m256d step, uint8_t *words)
{
    enum { nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }; /* clang wants a constant */
    const __m256d magic = _mm256_set1_pd(0x1p52), signed_magic = _mm256_set1_pd(0x1.8p52);
    __m256d x = _mm256_round_pd(_mm256_mul_pd(_mm256_cvtps_pd(numbers), step), nearest);
    __m256d high = _mm256_floor_pd(_mm256_mul_pd(x, _mm256_set1_pd(0x1p-32)));
    __m256d low = _mm256_sub_pd(x, _mm256_mul_pd(high, _mm256_set1_pd(0x1p32)));
    __m256i upper = _mm256_castpd_si256(_mm256_add_pd(high, signed_magic));
    __m256i lower = _mm256_castpd_si256(_mm256_add_pd(low, magic));
    lower = _mm256_xor_si256(lower, _mm256_castpd_si256(magic));
    __m256i whole = _mm256_add_epi64(_mm256_slli_epi64(upper, 32), lower);
    const __m256i old = _mm256_loadu_si256((const __m256i *)words);
    _mm256_storeu_si256((__m256i *)words, _mm256_add_epi64(old, whole));
}

WIDE static size_t add32(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    const __m256i limit = limit_of(scale);
    const __m256 step = _mm256_set1_ps(scale->step);
    __m256i clamped = _mm256_setzero_si256();
    uint8_t *at = words;
    size_t i = 0;
    for (; i + LINE <= count; i += LINE, at += 4 * LINE)
        add_words32(clamp(numbers + i, limit, &clamped), step, at);
    return count_of(clamped) + ring_reference.add32(scale, numbers + i, count - i, at);
}

WIDE static size_t add64(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    const __m256i limit = limit_of(scale);
    const __m256d step = _mm256_set1_pd((double)scale->step);
    __m256i clamped = _mm256_setzero_si256();
    uint8_t *at = words;
    size_t i = 0;
    for (; i + LINE <= count; i += LINE, at += 8 * LINE) {
        const __m256 line = clamp(numbers + i, limit, &clamped);
        add_words64(_mm256_castps256_ps128(line), step, at);
        add_words64(_mm256_extractf128_ps(line, 1), step, at + 4 * LINE);
    }
    return count_of(clamped) + ring_reference.add64(scale, numbers + i, count - i, at);
}

WIDE static void sum(uint32_t bits, void *out, const void *in, size_t bytes, bool subtract)
{
    ring_words_sum(bits, out, in, bytes, subtract);
}

const ring_kernel ring_avx2 = {"avx2", add32, add64, sum};
