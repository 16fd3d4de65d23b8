/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stripe of a masked part: the words of its numbers, each masked by its coordinate in the whole
 * vector, and behind them MASKED_COUNTS words, whose masks are of a stream of their own
 * (privacy/secure/secure_member.h).
 */
#ifndef RUNTIME_MASKED_WORDS_H
#define RUNTIME_MASKED_WORDS_H

#include "coding/layout.h"
#include "privacy/secure/secure_member.h"

static inline size_t masked_stripe_bytes(const ring *grid, const layout *cut, uint32_t index)
{
    return ring_bytes(grid, layout_stripe_length(cut, index) + MASKED_COUNTS);
}

#endif
