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
#include "privacy/secure/ring.h"

typedef struct secure_sum {
    ring grid;           /* bits 0: sums are not secure */
    uint64_t chunks;     /* in it */
    uint64_t *clamped;   /* per stripe: numbers of these that were clamped, or were none */
    uint64_t generation; /* of the parameters that they were computed with */
    bool mixed;          /* these differ */
    uint64_t version;    /* no two contents of a sum have the same */
} secure_sum;

/* Errors: NO_MEMORY. */
int secure_sum_init(secure_sum *self, const ring *grid, const layout *cut,
                    const tarry_allocator *allocator);
void secure_sum_destroy(secure_sum *self, const tarry_allocator *allocator);

/* What a gradient is added as. */
typedef struct secure_gradient {
    const float *numbers;
    uint64_t generation; /* of its parameters */
    bool begins;         /* the sum, which was another one */
    uint64_t version;    /* of the sum then */
} secure_gradient;

void secure_sum_add(secure_sum *self, const layout *cut, const secure_gradient *gradient,
                    void *words);
/* Writes what stands behind a stripe's numbers, but for the masks: RING_COUNTS words. */
void secure_sum_count(const secure_sum *self, uint32_t stripe, void *out);

#endif
