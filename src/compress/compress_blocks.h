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
    SIGN_BLOCK = 256,
    SIGN_SCALE_BYTES = 4,
    TOPK_BLOCK = 65536,
    TOPK_WHOLE = 1000000, /* a share of all */
};

/* How many of `count` numbers, at most TOPK_BLOCK, are kept: ceil(count share / TOPK_WHOLE);
 * share: 1..TOPK_WHOLE. */
static inline size_t topk_kept(uint32_t share, size_t count)
{
    return (size_t)(((uint64_t)count * share + TOPK_WHOLE - 1) / TOPK_WHOLE);
}

/* A block's bytes, of `count` numbers. */
static inline size_t int8_block_bytes(size_t count)
{
    return INT_SCALE_BYTES + count;
}

static inline size_t int4_block_bytes(size_t count)
{
    return INT_SCALE_BYTES + (count + 1) / 2;
}

/* Of any number of numbers. */
static inline size_t int4_bytes(size_t count)
{
    const size_t tail = count % INT_BLOCK;
    return count / INT_BLOCK * int4_block_bytes(INT_BLOCK) +
           (tail > 0 ? int4_block_bytes(tail) : 0);
}

/* Any number of numbers, as they are; they give back what follows the bytes. */
uint8_t *plain_put(const float *numbers, size_t count, uint8_t *bytes);
const uint8_t *plain_add(const uint8_t *bytes, size_t count, float weight, float *out);

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

/*
 * How far ahead numbers that are encoded are asked for. A block's are looked at twice, and what is
 * computed of them is more than a processor overlaps with its waiting for the next block, which it
 * does not foresee across pages. A few lines at a time, between what is computed: all those of a
 * block at once keep its first look waiting.
 */
enum {
    AHEAD_BYTES = 16384,
    CACHE_LINE = 64,
    SECOND_CACHE = 2, /* how near __builtin_prefetch has them brought */
};

/* For the line so many bytes behind a number; there may be nothing there. */
static inline __attribute__((always_inline)) void ask_for(const float *number, size_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)number + bytes), 0, SECOND_CACHE);
}

/* For as much as `count` numbers, AHEAD_BYTES behind them. */
static inline __attribute__((always_inline)) void ask_ahead(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count * sizeof(*numbers); i += CACHE_LINE)
        ask_for(numbers, AHEAD_BYTES + i);
}

/* What the codes of a block are, times `factor`. */
static inline void int4_numbers(float factor, float each[2 * INT4_LEVELS])
{
    for (uint32_t level = 0; level < INT4_LEVELS; level++) {
        each[level] = factor * (float)(level > 0 ? 1U << (level - 1) : 0);
        each[level + INT4_SIGN] = -each[level];
    }
}

#endif
