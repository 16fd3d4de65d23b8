/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of instruction sets by name, for kernel.c, which offers those that the processor can
 * run. */
#ifndef CODING_KERNEL_VARIANTS_H
#define CODING_KERNEL_VARIANTS_H

#include "coding/kernel.h"

/* On x86-64 only; the caller has checked that the processor has AVX2 and FMA, or AVX-512F. */
kernel_combine kernel_combine_avx2;
kernel_combine kernel_combine_avx512;
kernel_mix kernel_mix_avx2;
kernel_mix kernel_mix_avx512;

#endif
