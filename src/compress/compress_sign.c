/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/compress_sign.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

enum { LANES = 8, TOGETHER = 4 };

static size_t block_at(size_t count, size_t first)
{
    return count - first < SIGN_BLOCK ? count - first : SIGN_BLOCK;
}

static size_t block_bytes(size_t count)
{
    return SIGN_SCALE_BYTES + (count + 7) / 8;
}

size_t sign_bytes(size_t count)
{
    const size_t tail = count % SIGN_BLOCK;
    return count / SIGN_BLOCK * block_bytes(SIGN_BLOCK) + (tail > 0 ? block_bytes(tail) : 0);
}

/* NaN where a number is not finite. In lanes, for compilers that add several at once. */
static float mean_of(const float *numbers, size_t count)
{
    const size_t whole = count / LANES * LANES;
    double lanes[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += fabs((double)numbers[i + k]);
    for (size_t i = whole; i < count; i++)
        lanes[i - whole] += fabs((double)numbers[i]);
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return isfinite(sum) ? (float)(sum / (double)count) : NAN;
}

/* Of up to eight numbers, the first in the lowest bit. */
static uint8_t signs_of(const float *numbers, size_t count)
{
    uint32_t minus = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t bits;
        memcpy(&bits, numbers + k, sizeof(bits));
        minus |= bits >> 31 << k;
    }
    return (uint8_t)minus;
}

static void put_block(const float *numbers, size_t count, uint8_t *bytes)
{
    uint8_t *at = bytes_put_f32(bytes, mean_of(numbers, count));
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        *at++ = signs_of(numbers + i, 8);
    if (i < count)
        *at = signs_of(numbers + i, count - i);
}

static void add_block(const uint8_t *bytes, size_t count, float weight, float *out)
{
    const float plus = weight * bytes_get_f32(bytes);
    const uint8_t *at = bytes + SIGN_SCALE_BYTES;
    float each[1 << TOGETHER][TOGETHER]; /* the numbers of four bits */
    for (size_t bits = 0; bits < 1 << TOGETHER; bits++)
        for (size_t k = 0; k < TOGETHER; k++)
            each[bits][k] = (bits >> k & 1) != 0 ? -plus : plus;
    for (size_t i = 0; i < count; i += TOGETHER) {
        const float *numbers = each[at[i / 8] >> i % 8 & 15];
        const size_t some = count - i < TOGETHER ? count - i : TOGETHER;
        for (size_t k = 0; k < some; k++)
            out[i + k] += numbers[k];
    }
}

void sign_put(const float *numbers, size_t count, uint8_t *bytes)
{
    for (size_t i = 0; i < count; i += SIGN_BLOCK) {
        put_block(numbers + i, block_at(count, i), bytes);
        bytes += block_bytes(block_at(count, i));
    }
}

void sign_add(const uint8_t *bytes, size_t count, float weight, float *out)
{
    for (size_t i = 0; i < count; i += SIGN_BLOCK) {
        add_block(bytes, block_at(count, i), weight, out + i);
        bytes += block_bytes(block_at(count, i));
    }
}
