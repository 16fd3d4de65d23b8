/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions the processor has, and the choice among functions that need some of them. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include <stddef.h>

enum processor_feature {
    PROCESSOR_ANY = 0,
    PROCESSOR_AVX2 = 1 << 0, /* these are of x86-64 */
    PROCESSOR_FMA = 1 << 1,
    PROCESSOR_AVX512F = 1 << 2,
    PROCESSOR_AVX512BW = 1 << 3,
    PROCESSOR_AVX512DQ = 1 << 4,
};

/* Those that this processor has, as a sum. */
unsigned processor_features(void);

/* One way to do something, and the features that it needs. */
typedef struct processor_variant {
    const void *what;
    unsigned needs;
} processor_variant;

/* The ways to do it, from the plainest, which needs nothing, to the best. */
typedef struct processor_variants {
    const processor_variant *all;
    size_t count; /* 1 or more */
} processor_variants;

/* What is the index-th one of those that need no more than `features`; NULL past the last. */
const void *processor_variant_at(processor_variants of, unsigned features, size_t index);
/* What is the last of them. */
const void *processor_variant_best(processor_variants of, unsigned features);

#endif
