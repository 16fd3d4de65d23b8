/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_topk.h"

#include <string.h>

#include "base/bytes.h"

/* Without their sign the bits of numbers are ordered as their magnitudes are, and what is not
 * finite is above all others. They are looked at in digits, the upper ones first. */
enum { DIGITS = 3, DIGIT_BINS = 2048 };

static const struct {
    unsigned shift, width;
} digits[DIGITS] = {{20, 11}, {9, 11}, {0, 9}};

static uint32_t magnitude_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits & INT32_MAX;
}

/* The bits of the kept-th largest of `count` magnitudes; *above: how many are larger. */
static uint32_t find_least(const float *numbers, size_t count, size_t kept, size_t *above)
{
    uint32_t found = 0;
    *above = 0;
    for (size_t d = 0; d < DIGITS; d++) {
        uint32_t bins[DIGIT_BINS] = {0};
        const unsigned shift = digits[d].shift, width = digits[d].width, upper = shift + width;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = magnitude_bits(numbers[i]);
            bins[bits >> shift & ((1U << width) - 1)] += bits >> upper == found >> upper;
        }
        uint32_t bin = (1U << width) - 1;
        while (*above + bins[bin] < kept)
            *above += bins[bin--];
        found |= bin << shift;
    }
    return found;
}

/* Of equal ones at the border the first. */
static void put_block(size_t kept, const float *numbers, size_t count, uint8_t *bytes)
{
    size_t above;
    uint32_t least = find_least(numbers, count, kept, &above);
    size_t equal = kept - above;
    uint8_t *index = bytes, *value = bytes + kept * TOPK_INDEX_BYTES;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = magnitude_bits(numbers[i]);
        if (bits < least || (bits == least && equal == 0))
            continue;
        equal -= bits == least;
        index = bytes_put(index, i, TOPK_INDEX_BYTES);
        value = bytes_put_f32(value, numbers[i]);
    }
}

/* What says that it lies behind the last number is no number. */
static void add_block(size_t kept, const uint8_t *bytes, size_t count, float weight, float *out)
{
    const uint8_t *value = bytes + kept * TOPK_INDEX_BYTES;
    for (size_t k = 0; k < kept; k++) {
        size_t i = (size_t)bytes_get(bytes + k * TOPK_INDEX_BYTES, TOPK_INDEX_BYTES);
        if (i < count)
            out[i] += weight * bytes_get_f32(value + k * TOPK_VALUE_BYTES);
    }
}

static size_t block_at(size_t count, size_t first)
{
    return count - first < TOPK_BLOCK ? count - first : TOPK_BLOCK;
}

static size_t block_bytes(size_t kept)
{
    return kept * (TOPK_INDEX_BYTES + TOPK_VALUE_BYTES);
}

size_t topk_bytes(uint32_t share, size_t count)
{
    size_t whole = count / TOPK_BLOCK;
    return whole * block_bytes(topk_kept(share, TOPK_BLOCK)) +
           block_bytes(topk_kept(share, count % TOPK_BLOCK));
}

void topk_put(uint32_t share, const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, block_at(count, i));
        put_block(kept, numbers + i, block_at(count, i), bytes);
        bytes += block_bytes(kept);
    }
}

void topk_add(uint32_t share, const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, block_at(count, i));
        add_block(kept, bytes, block_at(count, i), weight, out + i);
        bytes += block_bytes(kept);
    }
}
