/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/kernel.h"

#include "base/processor.h"
#include "coding/kernel_variants.h"

static const kernel reference = {"reference", kernel_combine_reference};
#ifdef __x86_64__
static const kernel avx2 = {"avx2", kernel_combine_avx2};
static const kernel avx512 = {"avx512", kernel_combine_avx512};
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
    return processor_variant_best(kernels, processor_features());
}
