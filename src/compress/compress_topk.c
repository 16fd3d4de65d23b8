/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_topk.h"

#include <limits.h>
#include <string.h>

#include "compress/compress_blocks.h"
#include "compress/compress_kernel.h"

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

/* ---- a block's bytes ---- */

/* Places ascend, and are written as Elias and Fano do: the `low` lowest bits of each, one behind
 * the other, and then a row of bits in which the j-th place sets bit j + (place >> low). That is at
 * most 0.6 bits a place more than it takes to tell which of all choices it was, and as many bytes
 * wherever they lie. Behind them are the numbers, in INT4. */
typedef struct topk_shape {
    unsigned low;
    size_t low_bytes, row_bytes, number_bytes;
} topk_shape;

static topk_shape shape_of(size_t kept, size_t count)
{
    topk_shape shape = {0};
    if (kept == 0)
        return shape;
    while (count >> (shape.low + 1) >= kept)
        shape.low++;
    shape.low_bytes = (kept * shape.low + CHAR_BIT - 1) / CHAR_BIT;
    shape.row_bytes = (kept + ((count - 1) >> shape.low) + CHAR_BIT - 1) / CHAR_BIT;
    shape.number_bytes = int4_bytes(kept);
    return shape;
}

static size_t block_bytes(size_t kept, size_t count)
{
    topk_shape shape = shape_of(kept, count);
    return shape.low_bytes + shape.row_bytes + shape.number_bytes;
}

/* Fields of up to 16 bits, the first in the lowest ones of a byte. */
typedef struct bit_row {
    uint8_t *at;
    uint32_t held; /* bits that are not written yet, or were read and not used */
    unsigned bits;
} bit_row;

static void row_put(bit_row *row, uint32_t value, unsigned width)
{
    row->held |= value << row->bits;
    for (row->bits += width; row->bits >= CHAR_BIT; row->bits -= CHAR_BIT) {
        *row->at++ = (uint8_t)row->held;
        row->held >>= CHAR_BIT;
    }
}

static void row_end(bit_row *row)
{
    if (row->bits > 0)
        *row->at = (uint8_t)row->held;
}

static uint32_t row_get(const uint8_t *bytes, size_t first, unsigned width)
{
    uint32_t value = 0;
    for (unsigned have = 0; have < width;) {
        size_t bit = first + have;
        unsigned off = bit % CHAR_BIT, some = CHAR_BIT - off;
        value |= (uint32_t)(bytes[bit / CHAR_BIT] >> off) << have;
        have += some;
    }
    return value & ((1U << width) - 1);
}

/* Of equal ones at the border the first. */
static void put_block(size_t kept, const float *numbers, size_t count, uint8_t *bytes)
{
    const topk_shape shape = shape_of(kept, count);
    const compress_way *way = &compress_kernel_best()->int4;
    size_t above, chosen = 0;
    uint32_t least = find_least(numbers, count, kept, &above);
    size_t equal = kept - above;
    bit_row low = {.at = bytes};
    uint8_t *row = bytes + shape.low_bytes, *number = row + shape.row_bytes;
    float block[INT_BLOCK];
    memset(row, 0, shape.row_bytes);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = magnitude_bits(numbers[i]);
        if (bits < least || (bits == least && equal == 0))
            continue;
        equal -= bits == least;
        size_t set = chosen + (i >> shape.low);
        row[set / CHAR_BIT] |= (uint8_t)(1U << set % CHAR_BIT);
        row_put(&low, (uint32_t)i & ((1U << shape.low) - 1), shape.low);
        block[chosen++ % INT_BLOCK] = numbers[i];
        if (chosen % INT_BLOCK == 0) {
            way->put(block, INT_BLOCK, 0, number);
            number += int4_block_bytes(INT_BLOCK);
        }
    }
    row_end(&low);
    way->put(block, chosen % INT_BLOCK, 0, number);
}

/* Bits beyond the last place, and places beyond the last number, are none. */
static void add_block(size_t kept, const uint8_t *bytes, size_t count, float weight, float *out)
{
    const topk_shape shape = shape_of(kept, count);
    const compress_way *way = &compress_kernel_best()->int4;
    const uint8_t *row = bytes + shape.low_bytes, *number = row + shape.row_bytes;
    float block[INT_BLOCK];
    size_t j = 0;
    for (size_t at = 0; at < shape.row_bytes; at++)
        for (uint32_t bits = row[at]; bits != 0 && j < kept; bits &= bits - 1, j++) {
            if (j % INT_BLOCK == 0) {
                size_t some = kept - j < INT_BLOCK ? kept - j : INT_BLOCK;
                memset(block, 0, sizeof(block));
                way->add(number, some, weight, block);
                number += int4_block_bytes(some);
            }
            size_t upper = at * CHAR_BIT + (size_t)__builtin_ctz(bits) - j;
            size_t i = upper << shape.low | row_get(bytes, j * shape.low, shape.low);
            if (i < count)
                out[i] += block[j % INT_BLOCK];
        }
}

static size_t block_at(size_t count, size_t first)
{
    return count - first < TOPK_BLOCK ? count - first : TOPK_BLOCK;
}

size_t topk_bytes(uint32_t share, size_t count)
{
    size_t whole = count / TOPK_BLOCK, rest = count % TOPK_BLOCK;
    return whole * block_bytes(topk_kept(share, TOPK_BLOCK), TOPK_BLOCK) +
           block_bytes(topk_kept(share, rest), rest);
}

void topk_put(uint32_t share, const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, block_at(count, i));
        put_block(kept, numbers + i, block_at(count, i), bytes);
        bytes += block_bytes(kept, block_at(count, i));
    }
}

void topk_add(uint32_t share, const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += TOPK_BLOCK) {
        size_t kept = topk_kept(share, block_at(count, i));
        add_block(kept, bytes, block_at(count, i), weight, out + i);
        bytes += block_bytes(kept, block_at(count, i));
    }
}
