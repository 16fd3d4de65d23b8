/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels by name, for kernel.c, which offers those that the processor can run. */
#ifndef CODING_KERNEL_VARIANTS_H
#define CODING_KERNEL_VARIANTS_H

#include "coding/kernel.h"

kernel_combine kernel_combine_reference;

#endif
