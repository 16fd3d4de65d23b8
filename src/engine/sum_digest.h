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

#include "coding/layout.h"

enum { SUM_DIGEST_STRIPE = 65536 }; /* numbers */

/* Of numbers 0 .. dimension - 1, as their float32 bytes in memory. */
uint64_t sum_digest(uint64_t step, const float *sum, size_t dimension);
/* Of the first `whole` numbers of each part of a sum, which all parts have: XXH3-64, with the step
 * as seed, of the digests of the parts as little-endian words. */
uint64_t sum_digest_piece(uint64_t step, const float *sum, const layout *cut, size_t whole);

#endif
