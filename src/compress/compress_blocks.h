/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in plain C, piece by piece: what a kernel of wide instructions leaves to them, and what
 * it has to be equal to. */
#ifndef COMPRESS_COMPRESS_BLOCKS_H
#define COMPRESS_COMPRESS_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum {
    HALF_BYTES = 2,
    INT_BLOCK = 256,
    INT_SCALE_BYTES = 4,
    INT8_MOST = 127,
    INT4_LEVELS = 8, /* 0, and 1 to 2^6 steps */
    INT4_SIGN = 8,
    INT4_MOST = 64, /* steps */
    /* In the place of a number that is not finite. */
    INT8_ODD = -128,
    INT4_ODD = INT4_SIGN, /* minus 0 */
};

/* A block's bytes, of `count` numbers. */
static inline size_t int8_block_bytes(size_t count)
{
    return INT_SCALE_BYTES + count;
}

static inline size_t int4_block_bytes(size_t count)
{
    return INT_SCALE_BYTES + (count + 1) / 2;
}

/* Any number of numbers. */
void bf16_put(const float *numbers, size_t count, uint8_t *bytes);
void bf16_add(const uint8_t *bytes, size_t count, float weight, float *out);

/* A block of `count` numbers, of which the first is the `first`-th of all. */
void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes);
void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out);
void int4_put_block(const float *numbers, size_t count, uint8_t *bytes);
void int4_add_block(const uint8_t *bytes, size_t count, float weight, float *out);

/* The step of a block whose largest magnitude is `largest`, which is finite, and which becomes
 * `most` steps; and 1 over it. Both 0: its numbers count as zeros. */
float int_step(float largest, int most, float *inverse);

/* What the codes of a block are, times `factor`. */
static inline void int4_numbers(float factor, float each[2 * INT4_LEVELS])
{
    for (uint32_t level = 0; level < INT4_LEVELS; level++) {
        each[level] = factor * (float)(level > 0 ? 1U << (level - 1) : 0);
        each[level + INT4_SIGN] = -each[level];
    }
}

#endif
