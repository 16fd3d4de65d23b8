/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "privacy/secure/ring.h"
#include "privacy/secure/ring_words.h"

#define WIDE __attribute__((target("avx512f,avx512dq")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx512f,avx512dq")))

enum { LINE = 16 };

/* Sixteen clamped numbers; *clamped goes up by those that were not within the limit. */
static WIDE_INLINE __m512 clamp(const float *numbers, __m512i limit, __m512i *clamped)
{
    const __m512i most = _mm512_set1_epi32(INT32_MAX), one = _mm512_set1_epi32(1);
    const __m512i bits = _mm512_loadu_si512(numbers), size = _mm512_and_si512(bits, most);
    const __mmask16 finite = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(0x7f800000), size);
    const __mmask16 over = _mm512_cmpgt_epi32_mask(size, limit);
    *clamped = _mm512_mask_add_epi32(*clamped, over, *clamped, one);
    __m512i least = _mm512_maskz_min_epu32(finite, size, limit);
    return _mm512_castsi512_ps(_mm512_or_si512(least, _mm512_andnot_si512(most, bits)));
}

static WIDE_INLINE __m512i limit_of(const ring_scale *scale)
{
    return _mm512_castps_si512(_mm512_set1_ps(scale->limit));
}

static WIDE_INLINE size_t count_of(__m512i clamped)
{
    return (size_t)(uint32_t)_mm512_reduce_add_epi32(clamped);
}

static WIDE_INLINE void add_words64(__m256 numbers, __m512d step, uint8_t *words)
{
    const __m512i whole = _mm512_cvtpd_epi64(_mm512_mul_pd(_mm512_cvtps_pd(numbers), step));
    _mm512_storeu_si512(words, _mm512_add_epi64(_mm512_loadu_si512(words), whole));
}

WIDE static size_t add32(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    const __m512i limit = limit_of(scale);
    const __m512 step = _mm512_set1_ps(scale->step);
    __m512i clamped = _mm512_setzero_si512();
    uint8_t *at = words;
    size_t i = 0;
    for (; i + LINE <= count; i += LINE, at += 4 * LINE) {
        const __m512 line = clamp(numbers + i, limit, &clamped);
        const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(line, step));
        _mm512_storeu_si512(at, _mm512_add_epi32(_mm512_loadu_si512(at), whole));
    }
    return count_of(clamped) + ring_reference.add32(scale, numbers + i, count - i, at);
}

WIDE static size_t add64(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    const __m512i limit = limit_of(scale);
    const __m512d step = _mm512_set1_pd((double)scale->step);
    __m512i clamped = _mm512_setzero_si512();
    uint8_t *at = words;
    size_t i = 0;
    for (; i + LINE <= count; i += LINE, at += 8 * LINE) {
        const __m512 line = clamp(numbers + i, limit, &clamped);
        add_words64(_mm512_castps512_ps256(line), step, at);
        add_words64(_mm512_extractf32x8_ps(line, 1), step, at + 4 * LINE);
    }
    return count_of(clamped) + ring_reference.add64(scale, numbers + i, count - i, at);
}

WIDE static void sum(uint32_t bits, void *out, const void *in, size_t bytes, bool subtract)
{
    ring_words_sum(bits, out, in, bytes, subtract);
}

const ring_kernel ring_avx512 = {"avx512", add32, add64, sum};
