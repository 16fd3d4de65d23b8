/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a chunk stands for in a round: all of its own,
 * or a draw that is the same for every copy. */
#ifndef LEARN_BATCH_H
#define LEARN_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

typedef struct batch_settings {
    size_t rows; /* samples in all */
    uint32_t
        chunks;   /* N: chunk i is the samples floor(i rows / N) .. floor((i + 1) rows / N) - 1 */
    size_t batch; /* samples per round over all chunks; 0: every sample of every chunk */
    uint64_t seed;
} batch_settings;

/* The chunk's samples: first and count. */
void batch_chunk(const batch_settings *settings, uint32_t chunk, size_t *first, size_t *count);
/*
 * How many samples the chunk sums in a round: its own count, or its share of the batch (shares
 * differ by at most 1; a chunk without samples has none). A chunk's share is the same in every
 * round, so with batch < chunks some chunks are never drawn from.
 */
size_t batch_count(const batch_settings *settings, uint32_t chunk);
/* The same of all chunks. */
size_t batch_samples(const batch_settings *settings);
/* Draws that many of the chunk's rows, with replacement,
 * from (seed, round, chunk). Not with batch 0. */
void batch_draw(const batch_settings *settings, uint64_t round, uint32_t chunk, size_t *rows);
/* One such draw after the other: what batch_next gives first is batch_draw's. */
random_stream batch_begin(const batch_settings *settings, uint64_t round, uint32_t chunk);
void batch_next(const batch_settings *settings, uint32_t chunk, random_stream *stream,
                size_t *rows);

#endif
