/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/kernel_variants.h"

#include <immintrin.h>

#include "coding/vector_digest.h"

#define WIDE __attribute__((target("avx2,fma")))
#define WIDE_INLINE inline __attribute__((always_inline, target("avx2,fma")))

typedef struct line {
    __m256 low, high;
} line;

typedef struct line_mask {
    __m256i low, high;
} line_mask;

static WIDE_INLINE line line_zero(void)
{
    return (line){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static WIDE_INLINE line line_load(const float *from)
{
    return (line){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

static WIDE_INLINE void line_store(float *to, line value)
{
    _mm256_storeu_ps(to, value.low);
    _mm256_storeu_ps(to + 8, value.high);
}

static WIDE_INLINE void line_stream(float *to, line value)
{
    _mm256_stream_ps(to, value.low);
    _mm256_stream_ps(to + 8, value.high);
}

static WIDE_INLINE line line_sum(line sum, float coefficient, line in)
{
    __m256 factor = _mm256_set1_ps(coefficient);
    return (line){_mm256_fmadd_ps(factor, in.low, sum.low),
                  _mm256_fmadd_ps(factor, in.high, sum.high)};
}

static WIDE_INLINE line line_add_scaled(line sum, float coefficient, const float *in)
{
    return line_sum(sum, coefficient, line_load(in));
}

static WIDE_INLINE line_mask line_first(size_t count)
{
    __m256i all = _mm256_set1_epi32((int)count);
    return (line_mask){
        _mm256_cmpgt_epi32(all, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
        _mm256_cmpgt_epi32(all, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
    };
}

static WIDE_INLINE line line_load_first(const float *from, line_mask first)
{
    return (line){_mm256_maskload_ps(from, first.low), _mm256_maskload_ps(from + 8, first.high)};
}

static WIDE_INLINE void line_store_first(float *to, line_mask first, line value)
{
    _mm256_maskstore_ps(to, first.low, value.low);
    _mm256_maskstore_ps(to + 8, first.high, value.high);
}

static WIDE_INLINE line line_add_scaled_first(line sum, float coefficient, const float *in,
                                              line_mask first)
{
    return line_sum(sum, coefficient, line_load_first(in, first));
}

#include "coding/kernel_wide.h"

__attribute__((target("avx2,fma"))) void kernel_combine_avx2(float *out, const float *const *in,
                                                             const float *coefficients,
                                                             size_t inputs, size_t length,
                                                             kernel_mode mode)
{
    sum_all(out, in, coefficients, inputs, length, mode);
    _mm_sfence(); /* streaming stores become visible in order only after it */
}

__attribute__((target("avx2,fma"))) uint64_t kernel_mix_avx2(const void *words, uint64_t first,
                                                             size_t count, uint64_t key)
{
    return vector_mix_words(words, first, count, key);
}
