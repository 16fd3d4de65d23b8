/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rides behind the numbers of each stripe of a masked part: words of the ring that count, and
 * words that check. Their masks come from a stream of their own (secure_member.h), so that no count
 * ever shares a mask with a number.
 *
 * The check words are zero before they are masked. Parts that were masked for one kappa add up to
 * zero there, as all masks cancel. If any two neighbours were told different things, at least one
 * pair of masks is left, which is uniformly random to all who don't have its keys: the check words
 * and the count of chunks then all come out right with probability 2^-(w (MASKED_CHECKS + 1)),
 * which is 2^-96 for each stripe in words of 32 bits.
 */
#ifndef PRIVACY_SECURE_MASKED_COUNTS_H
#define PRIVACY_SECURE_MASKED_COUNTS_H

#include "privacy/secure/ring.h"

/* What a part counts, and, of a sum of parts, what they count together; mod 2^w. */
typedef struct masked_counts {
    uint64_t chunks;  /* that were summed */
    uint64_t clamped; /* numbers of these, in the stripe, that were clamped or not finite */
} masked_counts;

/* Where each word lies, counted from the first behind the numbers; how many there are. */
enum {
    MASKED_CHUNKS,
    MASKED_CLAMPED,
    MASKED_CHECK, /* the first of so many: */
    MASKED_CHECKS = 2,
    MASKED_COUNTS = MASKED_CHECK + MASKED_CHECKS,
};

/* Writes MASKED_COUNTS words, which are to be masked. */
void masked_counts_put(const ring *of, const masked_counts *counts, void *words);
/* Reads the words of a sum. False: the check words are not zero, so the masks have not cancelled,
 * and *counts means nothing. */
bool masked_counts_get(const ring *of, const void *words, masked_counts *counts);

/* The place, in the stream of counts, of the first such word of the stripe whose first number has
 * this coordinate in the whole vector. */
static inline uint64_t masked_counts_place(uint64_t coordinate)
{
    return MASKED_COUNTS * coordinate;
}

#endif
