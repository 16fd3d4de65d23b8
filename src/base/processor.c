/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processor.h"

#include <stdbool.h>

unsigned processor_features(void)
{
    unsigned found = PROCESSOR_ANY;
#ifdef __x86_64__
    found |= __builtin_cpu_supports("avx2") ? PROCESSOR_AVX2 : 0;
    found |= __builtin_cpu_supports("fma") ? PROCESSOR_FMA : 0;
    found |= __builtin_cpu_supports("avx512f") ? PROCESSOR_AVX512F : 0;
    found |= __builtin_cpu_supports("avx512bw") ? PROCESSOR_AVX512BW : 0;
    found |= __builtin_cpu_supports("avx512dq") ? PROCESSOR_AVX512DQ : 0;
#endif
    return found;
}

static bool runs(const processor_variant *variant, unsigned features)
{
    return (variant->needs & ~features) == 0;
}

const void *processor_variant_at(processor_variants of, unsigned features, size_t index)
{
    for (size_t i = 0; i < of.count; i++) {
        if (runs(&of.all[i], features) && index-- == 0)
            return of.all[i].what;
    }
    return NULL;
}

const void *processor_variant_best(processor_variants of, unsigned features)
{
    size_t best = of.count - 1;
    while (best > 0 && !runs(&of.all[best], features))
        best--;
    return of.all[best].what;
}
