/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_kernel.h"

#include "base/processor.h"

static const processor_variant all[] = {
    {&compress_reference, PROCESSOR_ANY},
#if defined(__x86_64__)
    {&compress_avx2, PROCESSOR_AVX2},
    {&compress_avx512, PROCESSOR_AVX512F | PROCESSOR_AVX512BW},
#elif defined(__aarch64__)
    {&compress_neon, PROCESSOR_ANY},
#endif
};

static const processor_variants kernels = {all, sizeof(all) / sizeof(*all)};

const compress_kernel *compress_kernel_at(size_t index)
{
    return processor_variant_at(kernels, processor_features(), index);
}

const compress_kernel *compress_kernel_best(void)
{
    return processor_variant_best(kernels, processor_features());
}
