/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bytes.h"
#include "privacy/secure/ring.h"
#include "privacy/secure/ring_words.h"

/* All ones where a < b, of numbers below 2^31; without a branch. */
static uint32_t below(uint32_t a, uint32_t b)
{
    return 0U - (a - b) / UINT32_C(0x80000000);
}

/* What the number counts as; *clamped goes up if it had to be clamped, or is not finite. */
static uint64_t whole(const ring_scale *scale, uint32_t limit, float number, size_t *clamped)
{
    const uint32_t infinite = UINT32_C(0x7f800000);
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    uint32_t size = bits & INT32_MAX;
    const uint32_t over = below(limit, size);
    *clamped += over & 1;
    size = ((size & ~over) | (limit & over)) & below(bits & INT32_MAX, infinite);
    bits = size | (bits & ~(uint32_t)INT32_MAX);
    memcpy(&number, &bits, sizeof(number));
    return (uint64_t)llrint((double)number * (double)scale->step);
}

static uint32_t limit_bits(const ring_scale *scale)
{
    uint32_t bits;
    memcpy(&bits, &scale->limit, sizeof(bits));
    return bits;
}

/* Words of so many bytes. */
static inline size_t add(const ring_scale *scale, const float *numbers, size_t count, uint8_t *word,
                         unsigned bytes)
{
    const uint32_t limit = limit_bits(scale);
    size_t clamped = 0;
    for (size_t i = 0; i < count; i++, word += bytes)
        bytes_put(word, bytes_get(word, bytes) + whole(scale, limit, numbers[i], &clamped), bytes);
    return clamped;
}

static size_t add32(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    return add(scale, numbers, count, words, 4);
}

static size_t add64(const ring_scale *scale, const float *numbers, size_t count, void *words)
{
    return add(scale, numbers, count, words, 8);
}

static void sum(uint32_t bits, void *out, const void *in, size_t bytes, bool subtract)
{
    ring_words_sum(bits, out, in, bytes, subtract);
}

const ring_kernel ring_reference = {"reference", add32, add64, sum};
