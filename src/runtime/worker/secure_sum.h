/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's running sum where sums are secure: words of a ring, to which each credited gradient
 * is added once, and what is counted beside them. The words lie where the slate's part does.
 */
#ifndef RUNTIME_SECURE_SUM_H
#define RUNTIME_SECURE_SUM_H

#include <stdbool.h>

#include <tarry/allocator.h>

#include "coding/layout.h"
#include "privacy/secure/masked_counts.h"

typedef struct secure_sum {
    ring grid;           /* bits 0: sums are not secure */
    uint64_t chunks;     /* in it */
    uint64_t clamped;    /* numbers of these that were clamped or not finite, in all stripes */
    uint64_t generation; /* of the parameters that they were computed with */
    bool mixed;          /* these differ */
    uint64_t version;    /* no two contents of a sum have the same */
} secure_sum;

void secure_sum_init(secure_sum *self, const ring *grid);

/* What a gradient is added as. */
typedef struct secure_gradient {
    const float *numbers;
    uint64_t generation; /* of its parameters */
    bool begins;         /* the sum, which was another one */
    uint64_t version;    /* of the sum then */
} secure_gradient;

void secure_sum_add(secure_sum *self, const layout *cut, const secure_gradient *gradient,
                    void *words);
/* The counts that go behind a stripe's numbers. Stripe 0 has the clamped numbers of all stripes,
 * and the others have 0: where in the vector numbers were clamped is not told. */
masked_counts secure_sum_counts(const secure_sum *self, uint32_t stripe);

#endif
