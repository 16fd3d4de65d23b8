/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_kernel.h"

#include <stdbool.h>

static bool always(void)
{
    return true;
}

#ifdef __x86_64__
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}
#endif

/* From the plainest to the best. */
static const struct {
    const compress_kernel *kernel;
    bool (*supported)(void);
} variants[] = {
    {&compress_reference, always},
#if defined(__x86_64__)
    {&compress_avx2, has_avx2},
    {&compress_avx512, has_avx512},
#elif defined(__aarch64__)
    {&compress_neon, always},
#endif
};

const compress_kernel *compress_kernel_at(size_t index)
{
    for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
        if (variants[i].supported() && index-- == 0)
            return variants[i].kernel;
    }
    return NULL;
}

const compress_kernel *compress_kernel_best(void)
{
    for (size_t i = sizeof(variants) / sizeof(*variants) - 1; i > 0; i--) {
        if (variants[i].supported())
            return variants[i].kernel;
    }
    return &compress_reference;
}
