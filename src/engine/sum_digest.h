/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a sum: XXH3-64 of each stripe of SUM_DIGEST_STRIPE numbers, and XXH3-64 of these as
 * little-endian words; both with the step as seed. It tells sums apart that differ by accident, at
 * the speed of memory; it does not protect against somebody who looks for two sums of the same
 * digest.
 */
#ifndef ENGINE_SUM_DIGEST_H
#define ENGINE_SUM_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

#include "coding/layout.h"

enum { SUM_DIGEST_STRIPE = 65536 }; /* numbers */

/* Of numbers 0 .. dimension - 1, as their float32 bytes in memory. */
uint64_t sum_digest(uint64_t step, const float *sum, size_t dimension);
/* Of the first `whole` numbers of each part of a sum, which all parts have: XXH3-64, with the step
 * as seed, of the digests of the parts as little-endian words. */
uint64_t sum_digest_piece(uint64_t step, const float *sum, const layout *cut, size_t whole);

/* Takes the digest of a sum whose numbers come about in any order, while they are in a cache. */
typedef struct sum_digester {
    size_t dimension, stripes;
    uint32_t *left;    /* per stripe: how many of its numbers are still to come */
    uint64_t *digests; /* per stripe, once none is */
    uint64_t step;
    const float *sum;
} sum_digester;

/* For sums of `dimension` numbers; all zeros: one that can be destroyed. Errors: NO_MEMORY. */
int sum_digester_init(sum_digester *self, size_t dimension, const tarry_allocator *allocator);
void sum_digester_destroy(sum_digester *self, const tarry_allocator *allocator);
/* None of the numbers is there. `sum` is borrowed until the end. */
void sum_digester_begin(sum_digester *self, uint64_t step, const float *sum);
/* The numbers first .. first + count - 1 are there, and change no more. Each is added once at
 * most. */
void sum_digester_add(sum_digester *self, size_t first, size_t count);
/* All numbers are there, added or not: their sum_digest. */
uint64_t sum_digester_end(sum_digester *self);

#endif
