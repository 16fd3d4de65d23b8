/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a vector: one sum modulo 2^64 over its words of 8 bytes, each mixed with its place.
 * Pieces can be added in any order, wherever they lie, and a graphics processor can compute the
 * same by a few operations on 64-bit integers. A word is two float32 numbers, the first in its low
 * half (behind a last one alone there are zeros), or one float64. With v = word i and s = v + key +
 * i PHI modulo 2^64, the word adds low(s) high(s) + v with its halves exchanged. The product is NH,
 * as in UMAC (Black et al., CRYPTO 1999) and XXH3, with keys that count, and tells places apart;
 * the second term sees a change where the other factor happens to be zero. In the end the sum is
 * mixed with the length of the vector, in numbers, and the key, which comes from the step.
 *
 * It finds accidents at the speed of memory. It does not protect against somebody who looks for two
 * vectors of the same digest.
 */
#ifndef CODING_VECTOR_DIGEST_H
#define CODING_VECTOR_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_DIGEST_PHI UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

/* A kernel's `mix`, to be inlined into a function of its instruction set. */
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
/* All numbers are there. Another pass over all is made if some were not told, or a piece cut a word
 * in two. */
uint64_t vector_digester_end(const vector_digester *self);

/* Of all at once. */
uint64_t vector_digest(uint64_t step, const float *numbers, size_t dimension);
/* The same of any bytes, 8 a word; zeros fill the last word. The length is in bytes, the step 0. */
uint64_t vector_digest_bytes(const void *bytes, size_t size);
uint64_t vector_digest_doubles(uint64_t step, const double *numbers, size_t dimension);

#endif
