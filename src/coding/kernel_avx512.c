/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/kernel_variants.h"

#include <immintrin.h>

#include "coding/vector_digest.h"

#define WIDE __attribute__((target("avx512f")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx512f")))

typedef __m512 line;
typedef __mmask16 line_mask;

static WIDE_INLINE line line_zero(void)
{
    return _mm512_setzero_ps();
}

static WIDE_INLINE line line_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

static WIDE_INLINE void line_store(float *to, line value)
{
    _mm512_storeu_ps(to, value);
}

static WIDE_INLINE void line_stream(float *to, line value)
{
    _mm512_stream_ps(to, value);
}

static WIDE_INLINE line line_add_scaled(line sum, float coefficient, const float *in)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(coefficient), line_load(in), sum);
}

static WIDE_INLINE line_mask line_first(size_t count)
{
    return (line_mask)((1U << count) - 1);
}

static WIDE_INLINE line line_load_first(const float *from, line_mask first)
{
    return _mm512_maskz_loadu_ps(first, from);
}

static WIDE_INLINE void line_store_first(float *to, line_mask first, line value)
{
    _mm512_mask_storeu_ps(to, first, value);
}

static WIDE_INLINE line line_add_scaled_first(line sum, float coefficient, const float *in,
                                              line_mask first)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(coefficient), line_load_first(in, first), sum);
}

#include "coding/kernel_wide.h"

__attribute__((target("avx512f"))) void kernel_combine_avx512(float *out, const float *const *in,
                                                              const float *coefficients,
                                                              size_t inputs, size_t length,
                                                              kernel_mode mode)
{
    sum_all(out, in, coefficients, inputs, length, mode);
    _mm_sfence(); /* streaming stores become visible in order only after it */
}

__attribute__((target("avx512f"))) uint64_t kernel_mix_avx512(const void *words, uint64_t first,
                                                              size_t count, uint64_t key)
{
    return vector_mix_words(words, first, count, key);
}
