/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/digest.h"
#include "learn/dataset.h"

enum { BATCH = 1024 };

static int add_size(digest *state, size_t size)
{
    const uint32_t halves[2] = {(uint32_t)size, (uint32_t)((uint64_t)size >> 32)};
    return digest_add_u32(state, halves, 2);
}

static int add_floats(digest *state, const float *values, size_t count)
{
    uint32_t bits[BATCH];
    int failed = 0;
    for (size_t start = 0; start < count && failed == 0; start += BATCH) {
        size_t size = count - start < BATCH ? count - start : BATCH;
        memcpy(bits, values + start, size * sizeof(*bits));
        failed = digest_add_u32(state, bits, size);
    }
    return failed;
}

int dataset_digest(const dataset *data, uint8_t out[32])
{
    digest *state = digest_begin();
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const uint32_t head[3] = {data->features, data->classes, data->sparse};
    int failed = digest_add_u32(state, head, 3);
    failed |= add_size(state, data->rows);
    size_t rows = data->label != NULL ? data->rows : 0;
    size_t values = rows * (size_t)data->features;
    if (data->sparse && rows > 0) {
        values = data->row_start[data->rows];
        for (size_t row = 0; row <= data->rows && failed == 0; row++)
            failed = add_size(state, data->row_start[row]);
        failed |= digest_add_u32(state, data->column, values);
    }
    failed |= add_floats(state, data->value, values);
    failed |= add_floats(state, data->label, rows);
    failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
