/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of words, in vectors of the instructions for which the including file is compiled; what lies
 * behind the last whole vector is summed word by word. */
#ifndef PRIVACY_SECURE_RING_WORDS_H
#define PRIVACY_SECURE_RING_WORDS_H

#include "base/bytes.h"
#include "privacy/secure/ring.h"

/* At any address, whatever else the memory is. */
typedef uint32_t ring_lanes32 __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint64_t ring_lanes64 __attribute__((vector_size(64), aligned(1), may_alias));

/* Whether words in memory are those of this machine, so that vectors hold them. */
#define RING_WORDS_ARE_NATIVE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

#define RING_INLINE static inline __attribute__((always_inline))

RING_INLINE void ring_words_add32(uint8_t *out, const uint8_t *in, size_t bytes, bool subtract)
{
    size_t i = 0;
    for (; RING_WORDS_ARE_NATIVE && i + sizeof(ring_lanes32) <= bytes; i += sizeof(ring_lanes32)) {
        const ring_lanes32 more = *(const ring_lanes32 *)(in + i);
        if (subtract)
            *(ring_lanes32 *)(out + i) -= more;
        else
            *(ring_lanes32 *)(out + i) += more;
    }
    for (; i < bytes; i += 4) {
        const uint64_t more = bytes_get(in + i, 4);
        bytes_put(out + i, bytes_get(out + i, 4) + (subtract ? 0 - more : more), 4);
    }
}

RING_INLINE void ring_words_add64(uint8_t *out, const uint8_t *in, size_t bytes, bool subtract)
{
    size_t i = 0;
    for (; RING_WORDS_ARE_NATIVE && i + sizeof(ring_lanes64) <= bytes; i += sizeof(ring_lanes64)) {
        const ring_lanes64 more = *(const ring_lanes64 *)(in + i);
        if (subtract)
            *(ring_lanes64 *)(out + i) -= more;
        else
            *(ring_lanes64 *)(out + i) += more;
    }
    for (; i < bytes; i += 8) {
        const uint64_t more = bytes_get(in + i, 8);
        bytes_put(out + i, bytes_get(out + i, 8) + (subtract ? 0 - more : more), 8);
    }
}

/* A ring_summer (ring.h). */
RING_INLINE void ring_words_sum(uint32_t bits, void *out, const void *in, size_t bytes,
                                bool subtract)
{
    if (bits == 32 && subtract)
        ring_words_add32(out, in, bytes, true);
    else if (bits == 32)
        ring_words_add32(out, in, bytes, false);
    else if (subtract)
        ring_words_add64(out, in, bytes, true);
    else
        ring_words_add64(out, in, bytes, false);
}

#endif
