/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shipped_data.h"

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

int shipped_data_create(const dataset *data, const batch_settings *batch, shipped_data **out)
{
    shipped_data *shipped = memory_allocate(NULL, 1, sizeof(*shipped));
    if (shipped == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *shipped = (shipped_data){.data = data, .batch = *batch};
    shipped->chunk = memory_allocate(NULL, batch->chunks, sizeof(*shipped->chunk));
    if (shipped->chunk == NULL) {
        memory_release(NULL, shipped);
        return TARRY_ERROR_NO_MEMORY;
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
        chunk->size = dataset_encoded_size(shipped->data, first, count);
        chunk->bytes = memory_allocate(NULL, chunk->size, 1);
        if (chunk->bytes == NULL)
            return TARRY_ERROR_NO_MEMORY;
        dataset_encode(shipped->data, first, count, chunk->bytes);
    }
    *bytes = chunk->bytes;
    *size = chunk->size;
    return TARRY_OK;
}
