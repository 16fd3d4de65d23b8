/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as little-endian bytes, the same on every machine. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether that many bytes, a constant, are one load or store on this machine. The others would be
 * put together in memory, which takes longer than the loop. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTES_ARE_A_WORD(bytes)                                                                    \
    (__builtin_constant_p(bytes) && ((bytes) == 1 || (bytes) == 2 || (bytes) == 4 || (bytes) == 8))
#else
#define BYTES_ARE_A_WORD(bytes) false
#endif

/* Writes the lowest `bytes` (1..8) bytes of value, and gives back what follows them. */
static inline uint8_t *bytes_put(uint8_t *at, uint64_t value, unsigned bytes)
{
    if (BYTES_ARE_A_WORD(bytes)) {
        memcpy(at, &value, bytes);
        return at + bytes;
    }
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static inline uint64_t bytes_get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    if (BYTES_ARE_A_WORD(bytes)) {
        memcpy(&value, at, bytes);
        return value;
    }
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* A float as the four bytes of its IEEE 754 representation. */
static inline uint8_t *bytes_put_f32(uint8_t *at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bytes_put(at, bits, sizeof(bits));
}

static inline float bytes_get_f32(const uint8_t *at)
{
    uint32_t bits = (uint32_t)bytes_get(at, sizeof(bits));
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A double as the eight bytes of its IEEE 754 representation. */
static inline uint8_t *bytes_put_f64(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bytes_put(at, bits, sizeof(bits));
}

static inline double bytes_get_f64(const uint8_t *at)
{
    uint64_t bits = bytes_get(at, sizeof(bits));
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#endif
