/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/shipped_data.h"

#include <inttypes.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "learn/dataset_code.h"

typedef struct shipped_chunk {
    uint8_t *bytes; /* NULL: nobody asked for them */
    size_t size;
} shipped_chunk;

struct shipped_data {
    const dataset *data;
    batch_settings batch;
    shipped_chunk *chunk;
};

static size_t size_of(const dataset *data, const batch_settings *batch, uint32_t chunk)
{
    size_t first, count;
    batch_chunk(batch, chunk, &first, &count);
    return dataset_encoded_size(data, first, count);
}

static int check_sizes(const dataset *data, const batch_settings *batch,
                       tarry_diagnostic *diagnostic)
{
    for (uint32_t chunk = 0; chunk < batch->chunks; chunk++) {
        size_t size = size_of(data, batch, chunk);
        if (size > TARRY_TCP_SHIP_MOST)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "the samples of chunk %" PRIu32 " are %zu bytes, and no more than "
                            "%" PRIu64 " can be shipped: more chunks are needed",
                            chunk, size, TARRY_TCP_SHIP_MOST);
    }
    return TARRY_OK;
}

int shipped_data_create(const dataset *data, const batch_settings *batch, shipped_data **out,
                        tarry_diagnostic *diagnostic)
{
    int error = check_sizes(data, batch, diagnostic);
    if (error != TARRY_OK)
        return error;
    shipped_data *shipped = memory_allocate(NULL, 1, sizeof(*shipped));
    if (shipped == NULL)
        return diagnose_no_memory(diagnostic, "shipped data");
    *shipped = (shipped_data){.data = data, .batch = *batch};
    shipped->chunk = memory_allocate(NULL, batch->chunks, sizeof(*shipped->chunk));
    if (shipped->chunk == NULL) {
        memory_release(NULL, shipped);
        return diagnose_no_memory(diagnostic, "shipped data");
    }
    *out = shipped;
    return TARRY_OK;
}

void shipped_data_free(shipped_data *shipped)
{
    if (shipped == NULL)
        return;
    for (uint32_t i = 0; i < shipped->batch.chunks; i++)
        memory_release(NULL, shipped->chunk[i].bytes);
    memory_release(NULL, shipped->chunk);
    memory_release(NULL, shipped);
}

int shipped_data_give(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    shipped_data *shipped = user;
    if (origin >= shipped->batch.chunks)
        return TARRY_ERROR_ARGUMENT;
    shipped_chunk *chunk = &shipped->chunk[origin];
    if (chunk->bytes == NULL) {
        size_t first, count;
        batch_chunk(&shipped->batch, origin, &first, &count);
        chunk->size = size_of(shipped->data, &shipped->batch, origin);
        chunk->bytes = memory_allocate(NULL, chunk->size, 1);
        if (chunk->bytes == NULL)
            return TARRY_ERROR_NO_MEMORY;
        dataset_encode(shipped->data, first, count, chunk->bytes);
    }
    *bytes = chunk->bytes;
    *size = chunk->size;
    return TARRY_OK;
}
