/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/kernel.h"

#include "coding/kernel_variants.h"

static bool always(void)
{
    return true;
}

#ifdef __x86_64__
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

typedef struct variant {
    kernel kernel;
    bool (*supported)(void);
} variant;

/* From the plainest to the best. */
static const variant variants[] = {
    {{"reference", kernel_combine_reference}, always},
#ifdef __x86_64__
    {{"avx2", kernel_combine_avx2}, has_avx2},
    {{"avx512", kernel_combine_avx512}, has_avx512},
#endif
};

const kernel *kernel_at(size_t index)
{
    for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
        if (variants[i].supported() && index-- == 0)
            return &variants[i].kernel;
    }
    return NULL;
}

const kernel *kernel_best(void)
{
    const kernel *best = kernel_at(0);
    for (size_t index = 1; kernel_at(index) != NULL; index++)
        best = kernel_at(index);
    return best;
}
