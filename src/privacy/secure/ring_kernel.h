/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to add numbers and words to words of a ring, which give the same to the bit: plain C, and
 * vector instructions where the processor has them. */
#ifndef PRIVACY_SECURE_RING_KERNEL_H
#define PRIVACY_SECURE_RING_KERNEL_H

#include "privacy/secure/ring.h"

typedef struct ring_scale {
    float limit; /* the largest float up to B */
    float step;  /* 2^f */
} ring_scale;

ring_scale ring_scale_of(const ring *of);

/* As ring_add; words are of 32 bits, or of 64. */
typedef size_t ring_adder(const ring_scale *scale, const float *numbers, size_t count, void *words);

/* out += in, or -= in: `bytes` of words of `bits`, 32 or 64; they do not overlap. */
typedef void ring_summer(uint32_t bits, void *out, const void *in, size_t bytes, bool subtract);

typedef struct ring_kernel {
    const char *name; /* "reference", "avx2", "avx512" */
    ring_adder *add32, *add64;
    ring_summer *sum;
} ring_kernel;

/* The index-th one that this processor can run, from the reference (0) to the best; NULL past the
 * last. */
const ring_kernel *ring_kernel_at(size_t index);
const ring_kernel *ring_kernel_best(void);

/* ---- its variants ---- */

extern const ring_kernel ring_reference;
/* The caller has checked that the processor has what they need. */
extern const ring_kernel ring_avx2;   /* on x86-64 only: AVX2 */
extern const ring_kernel ring_avx512; /* on x86-64 only: AVX-512F and DQ */

#endif
