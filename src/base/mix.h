/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MIX_H
#define BASE_MIX_H

#include <stdint.h>

/* The finalizer of MurmurHash3, a bijection of 64 bits. */
static inline uint64_t mix_u64(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

#endif
