/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/ring_kernel.h"

#include "base/processor.h"

static const processor_variant all[] = {
    {&ring_reference, PROCESSOR_ANY},
#ifdef __x86_64__
    {&ring_avx2, PROCESSOR_AVX2},
    {&ring_avx512, PROCESSOR_AVX512F | PROCESSOR_AVX512DQ},
#endif
};

static const processor_variants kernels = {all, sizeof(all) / sizeof(*all)};

const ring_kernel *ring_kernel_at(size_t index)
{
    return processor_variant_at(kernels, processor_features(), index);
}

const ring_kernel *ring_kernel_best(void)
{
    return processor_variant_best(kernels, processor_features());
}
