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

/* `bits` (1..64) bits from bit `start` on, as the lowest of a word. */
static inline uint64_t bitset_get(const uint64_t *set, size_t start, size_t bits)
{
    size_t left = 64 - start % 64; /* in the first word */
    uint64_t value = set[start / 64] >> start % 64;
    if (bits > left)
        value |= set[start / 64 + 1] << left;
    return value & UINT64_MAX >> (64 - bits);
}

/* Adds such bits to the set, from bit `at` on. */
static inline void bitset_add(uint64_t *set, size_t at, uint64_t value, size_t bits)
{
    size_t room = 64 - at % 64;
    set[at / 64] |= value << at % 64;
    if (bits > room)
        set[at / 64 + 1] |= value >> room;
}

/* Copies `bits` bits of `from`, starting at bit `start`, to `to`, starting at bit `at`. */
static inline void bitset_copy(uint64_t *to, size_t at, const uint64_t *from, size_t start,
                               size_t bits)
{
    for (size_t done = 0; done < bits; done += 64) {
        size_t some = bits - done < 64 ? bits - done : 64, room = 64 - (at + done) % 64;
        uint64_t mask = UINT64_MAX >> (64 - some), *word = to + (at + done) / 64;
        word[0] &= ~(mask << (at + done) % 64);
        if (some > room)
            word[1] &= ~(mask >> room);
        bitset_add(to, at + done, bitset_get(from, start + done, some), some);
    }
}

#endif
