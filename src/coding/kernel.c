/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/kernel.h"

#include <stdatomic.h>
#include <string.h>

#include "base/processor.h"
#include "coding/kernel_variants.h"
#include "coding/vector_digest.h"

enum { BLOCK = 1024 }; /* numbers of `out` that stay in the first cache while the inputs pass */

static void add_scaled(float *restrict out, const float *restrict in, float coefficient,
                       size_t length)
{
    for (size_t x = 0; x < length; x++)
        out[x] += coefficient * in[x];
}

/* The plain kernel that the others are checked against, and what runs where there is no other. */
static void combine_reference(float *out, const float *const *in, const float *coefficients,
                              size_t inputs, size_t length, kernel_mode mode)
{
    for (size_t start = 0; start < length; start += BLOCK) {
        size_t count = length - start < BLOCK ? length - start : BLOCK;
        if (mode != KERNEL_ADD)
            memset(out + start, 0, count * sizeof(*out));
        for (size_t k = 0; k < inputs; k++)
            add_scaled(out + start, in[k] + start, coefficients[k], count);
    }
}

static uint64_t mix_reference(const void *words, uint64_t first, size_t count, uint64_t key)
{
    return vector_mix_words(words, first, count, key);
}

static const kernel reference = {"reference", combine_reference, mix_reference};
#ifdef __x86_64__
static const kernel avx2 = {"avx2", kernel_combine_avx2, kernel_mix_avx2};
static const kernel avx512 = {"avx512", kernel_combine_avx512, kernel_mix_avx512};
#endif

static const processor_variant all[] = {
    {&reference, PROCESSOR_ANY},
#ifdef __x86_64__
    {&avx2, PROCESSOR_AVX2 | PROCESSOR_FMA},
    {&avx512, PROCESSOR_AVX512F},
#endif
};

static const processor_variants kernels = {all, sizeof(all) / sizeof(*all)};

const kernel *kernel_at(size_t index)
{
    return processor_variant_at(kernels, processor_features(), index);
}

const kernel *kernel_best(void)
{
    static const kernel *_Atomic best; /* the same, whichever thread asks first */
    const kernel *found = atomic_load_explicit(&best, memory_order_relaxed);
    if (found == NULL) {
        found = processor_variant_best(kernels, processor_features());
        atomic_store_explicit(&best, found, memory_order_relaxed);
    }
    return found;
}
