/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a vector: one sum modulo 2^64 over its words of 8 bytes, each mixed with its place,
 * so that pieces may be added in any order, wherever they lie, and a graphics processor has the
 * same with a few operations on 64-bit integers. A word is two float32 numbers, the first one in
 * its low half (a last one alone: the high half is zero), or one float64. With v = word i and s = v
 * + key + i PHI modulo 2^64, what is added is low(s) high(s) + v with its halves exchanged: NH, as
 * in UMAC (Black et al., CRYPTO 1999) and XXH3, with keys that count. The first term tells places
 * apart, and with the second no change of a single number goes unseen. What is left is mixed with
 * the vector's length and with the key, which is made of the step.
 *
 * It tells vectors apart that differ by accident, at the speed of memory; it does not protect
 * against somebody who looks for two of the same digest.
 */
#ifndef CODING_VECTOR_DIGEST_H
#define CODING_VECTOR_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_DIGEST_PHI UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

/* What a kernel's `mix` does; to be inlined where the instruction set is known. */
static inline __attribute__((always_inline)) uint64_t
vector_mix_words(const void *words, uint64_t first, size_t count, uint64_t key)
{
    const uint8_t *at = words;
    uint64_t sum = 0;
    key += first * VECTOR_DIGEST_PHI;
    for (size_t i = 0; i < count; i++) {
        uint64_t v;
        memcpy(&v, at + 8 * i, sizeof(v));
        uint64_t s = v + key + i * VECTOR_DIGEST_PHI;
        sum += (s & UINT32_MAX) * (s >> 32) + (v << 32 | v >> 32);
    }
    return sum;
}

/* Takes the digest of a vector of float32 whose numbers come about in any order, while they are in
 * a cache. */
typedef struct vector_digester {
    const float *numbers;
    size_t dimension;
    uint64_t key;
    uint64_t sum; /* of what was told */
    size_t told;  /* numbers */
} vector_digester;

/* None of the numbers is there. `numbers` is borrowed until the end. */
void vector_digester_begin(vector_digester *self, uint64_t step, const float *numbers,
                           size_t dimension);
/* The numbers first .. first + count - 1 are there, and change no more. Each is added once at
 * most. A piece that cuts a word in two is not read before the end. */
void vector_digester_add(vector_digester *self, size_t first, size_t count);
/* All numbers are there. What was not told, or cut a word in two, costs another pass over all. */
uint64_t vector_digester_end(const vector_digester *self);

/* Of all at once. */
uint64_t vector_digest(uint64_t step, const float *numbers, size_t dimension);

#endif
