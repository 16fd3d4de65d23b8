/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/masked_counts.h"

#include <string.h>

void masked_counts_put(const ring *of, const masked_counts *counts, void *words)
{
    memset(words, 0, ring_bytes(of, MASKED_COUNTS));
    ring_count(of, words, MASKED_CHUNKS, counts->chunks);
    ring_count(of, words, MASKED_CLAMPED, counts->clamped);
}

bool masked_counts_get(const ring *of, const void *words, masked_counts *counts)
{
    uint64_t any = 0;
    for (size_t i = 0; i < MASKED_CHECKS; i++)
        any |= ring_word(of, words, MASKED_CHECK + i);
    counts->chunks = ring_word(of, words, MASKED_CHUNKS);
    counts->clamped = ring_word(of, words, MASKED_CLAMPED);
    return any == 0;
}
