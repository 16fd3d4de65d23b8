/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers from Philox4x32-10, a counter-based generator: a stream is a pure function of
 * (seed, purpose, a, b), so that any machine draws any number without drawing those before it.
 * Source: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* What a stream is for; streams of different purposes are independent.
 * Values are part of what a seed means. */
typedef enum random_purpose {
    RANDOM_DESIGN = 1,
    RANDOM_ORDER = 2,
    RANDOM_DECODE = 3,
    RANDOM_CONDITIONING = 4,
    RANDOM_STRAGGLER = 5,
    RANDOM_STRAGGLER_CHOICE = 6,
    RANDOM_SYNTHETIC = 7,
    RANDOM_HOLDOUT = 8,
    RANDOM_BATCH = 9,
    RANDOM_INITIAL = 10,
    RANDOM_BENCH = 11,
    RANDOM_SIMULATION = 12,
    RANDOM_FAULTS = 13,
    RANDOM_CHUNK_COST = 14,
    RANDOM_TRIAL = 20,
    RANDOM_BACKOFF = 21,
    RANDOM_ENDURANCE = 22,
    RANDOM_RACK = 30,
    RANDOM_NUMERICS = 31,
    RANDOM_LINK = 33,
    RANDOM_JITTER = 34,
    RANDOM_SAMPLE = 36,
    RANDOM_FACTOR = 38,
    RANDOM_TEST = 100,
} random_purpose;

typedef struct random_stream {
    uint32_t key[2];
    uint32_t counter[4]; /* block, purpose, a, b */
    uint32_t block[4];
    unsigned used; /* of the block's four words */
} random_stream;

random_stream random_stream_make(uint64_t seed, random_purpose purpose, uint32_t a, uint32_t b);

/* Draws the stream's next four words. */
void random_refill(random_stream *stream);

static inline uint32_t random_u32(random_stream *stream)
{
    if (stream->used == 4)
        random_refill(stream);
    return stream->block[stream->used++];
}

static inline uint64_t random_u64(random_stream *stream)
{
    uint64_t low = random_u32(stream);
    return low | (uint64_t)random_u32(stream) << 32;
}

/* Uniform in 0..bound-1, without bias; bound >= 1. */
uint32_t random_below(random_stream *stream, uint32_t bound);
/* Uniform in (0, 1): (k + 1/2) / 2^53 with k of 53 bits. */
static inline double random_uniform(random_stream *stream)
{
    return ((double)(random_u64(stream) >> 11) + 0.5) * 0x1p-53;
}

/* Exp(1) and N(0,1), by the C library's log, sin and cos:
 * equal over machines but for the last bit. */
double random_exponential(random_stream *stream);
double random_normal(random_stream *stream);
/* A random order of values[0..count-1]. */
void random_shuffle(random_stream *stream, uint32_t *values, uint32_t count);

#endif
