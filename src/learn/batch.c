/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/batch.h"

#include <assert.h>

/* floor(i total / parts) without overflow of the product. */
static size_t share_start(size_t total, uint32_t parts, uint32_t i)
{
    return total / parts * i + total % parts * i / parts;
}

static size_t share_size(size_t total, uint32_t parts, uint32_t i)
{
    return share_start(total, parts, i + 1) - share_start(total, parts, i);
}

void batch_chunk(const batch_settings *settings, uint32_t chunk, size_t *first, size_t *count)
{
    assert(chunk < settings->chunks);
    *first = share_start(settings->rows, settings->chunks, chunk);
    *count = share_size(settings->rows, settings->chunks, chunk);
}

size_t batch_count(const batch_settings *settings, uint32_t chunk)
{
    assert(chunk < settings->chunks);
    size_t own = share_size(settings->rows, settings->chunks, chunk);
    if (settings->batch == 0 || own == 0)
        return own;
    return share_size(settings->batch, settings->chunks, chunk);
}

size_t batch_samples(const batch_settings *settings)
{
    size_t samples = 0;
    for (uint32_t chunk = 0; chunk < settings->chunks; chunk++)
        samples += batch_count(settings, chunk);
    return samples;
}

random_stream batch_begin(const batch_settings *settings, uint64_t round, uint32_t chunk)
{
    return random_stream_make(settings->seed, RANDOM_BATCH, (uint32_t)round, chunk);
}

/* The high word of 64 random bits times the number of samples: its bias is below count / 2^64. */
void batch_next(const batch_settings *settings, uint32_t chunk, random_stream *stream, size_t *rows)
{
    assert(settings->batch > 0);
    size_t first, own;
    batch_chunk(settings, chunk, &first, &own);
    size_t count = batch_count(settings, chunk);
    for (size_t i = 0; i < count; i++)
        rows[i] = first + (size_t)((unsigned __int128)random_u64(stream) * own >> 64);
}

void batch_draw(const batch_settings *settings, uint64_t round, uint32_t chunk, size_t *rows)
{
    random_stream stream = batch_begin(settings, round, chunk);
    batch_next(settings, chunk, &stream, rows);
}
