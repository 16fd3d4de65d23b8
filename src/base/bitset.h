/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of small integers as bits of 64-bit words, least significant bit first. */
#ifndef BASE_BITSET_H
#define BASE_BITSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many words hold `bits` bits. */
static inline size_t bitset_words(size_t bits)
{
    return (bits + 63) / 64;
}

static inline bool bitset_test(const uint64_t *set, size_t bit)
{
    return (set[bit / 64] >> (bit % 64) & 1) != 0;
}

static inline void bitset_set(uint64_t *set, size_t bit)
{
    set[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static inline void bitset_reset(uint64_t *set, size_t bit)
{
    set[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
}

static inline void bitset_put(uint64_t *set, size_t bit, bool value)
{
    if (value)
        bitset_set(set, bit);
    else
        bitset_reset(set, bit);
}

/* Empties the words of a set of `bits` bits. */
static inline void bitset_clear(uint64_t *set, size_t bits)
{
    memset(set, 0, bitset_words(bits) * sizeof(*set));
}

/* How many of the first `bits` bits are set. */
static inline size_t bitset_count(const uint64_t *set, size_t bits)
{
    size_t count = 0;
    for (size_t word = 0; word < bits / 64; word++)
        count += (size_t)__builtin_popcountll(set[word]);
    if (bits % 64 != 0)
        count += (size_t)__builtin_popcountll(set[bits / 64] & ((UINT64_C(1) << bits % 64) - 1));
    return count;
}

/* Copies `bits` bits of `from`, starting at bit `start`, to `to`, starting at bit `at`. */
static inline void bitset_copy(uint64_t *to, size_t at, const uint64_t *from, size_t start,
                               size_t bits)
{
    for (size_t bit = 0; bit < bits; bit++)
        bitset_put(to, at + bit, bitset_test(from, start + bit));
}

#endif
