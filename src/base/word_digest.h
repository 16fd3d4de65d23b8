/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-64, with a seed, of words of 8 bytes in little-endian order: digests of what was cut into
 * pieces, each of which has a digest of its own. The same on every machine, and without memory of
 * its own.
 */
#ifndef BASE_WORD_DIGEST_H
#define BASE_WORD_DIGEST_H

#include <stdint.h>

#ifndef XXH_STATIC_LINKING_ONLY
#define XXH_STATIC_LINKING_ONLY /* a state that needs no allocation */
#endif
#include <xxhash.h>

#include "base/bytes.h"

typedef struct word_digest {
    XXH3_state_t state;
} word_digest;

static inline void word_digest_begin(word_digest *self, uint64_t seed)
{
    XXH3_INITSTATE(&self->state);
    XXH3_64bits_reset_withSeed(&self->state, seed);
}

static inline void word_digest_add(word_digest *self, uint64_t word)
{
    uint8_t bytes[8];
    bytes_put(bytes, word, sizeof(bytes));
    XXH3_64bits_update(&self->state, bytes, sizeof(bytes));
}

static inline uint64_t word_digest_end(const word_digest *self)
{
    return XXH3_64bits_digest(&self->state);
}

#endif
