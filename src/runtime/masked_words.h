/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stripe of a masked part: the words of its numbers, then how many chunks are in them, and how
 * many of their numbers were clamped. Words of all stripes follow each other in the streams of
 * masks.
 */
#ifndef RUNTIME_MASKED_WORDS_H
#define RUNTIME_MASKED_WORDS_H

#include "coding/layout.h"
#include "privacy/secure/ring.h"

enum { MASKED_CHUNKS, MASKED_CLAMPED }; /* behind the numbers: RING_COUNTS words */

static inline size_t masked_stripe_bytes(const ring *grid, const layout *cut, uint32_t index)
{
    return ring_bytes(grid, layout_stripe_length(cut, index) + RING_COUNTS);
}

/* The number of its first word among those of all stripes. */
static inline uint64_t masked_stripe_first(const layout *cut, uint32_t index)
{
    return (uint64_t)layout_stripe_start(cut, index) + (uint64_t)RING_COUNTS * index;
}

#endif
