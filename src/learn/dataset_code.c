/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/dataset_code.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"

enum { VERSION = 1, NUMBER_BYTES = 4 };

static const uint8_t name[8] = "TARRYROW";

typedef struct range {
    size_t start, count; /* of stored values */
} range;

static range values_of(const dataset *data, size_t first, size_t count)
{
    if (data->sparse)
        return (range){data->row_start[first],
                       data->row_start[first + count] - data->row_start[first]};
    return (range){first * data->features, count * data->features};
}

size_t dataset_encoded_size(const dataset *data, size_t first, size_t count)
{
    size_t values = values_of(data, first, count).count;
    size_t numbers = data->sparse ? 2 * (count + values) : count + values;
    return DATASET_CODE_HEAD_BYTES + numbers * NUMBER_BYTES;
}

static uint8_t *put_floats(uint8_t *at, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof(bits));
        at = bytes_put(at, bits, sizeof(bits));
    }
    return at;
}

void dataset_encode(const dataset *data, size_t first, size_t count, uint8_t *bytes)
{
    range values = values_of(data, first, count);
    uint8_t *at = bytes;
    memcpy(at, name, sizeof(name));
    at = bytes_put(at + sizeof(name), VERSION, 4);
    at = bytes_put(at, data->sparse, 4);
    at = bytes_put(at, data->features, 4);
    at = bytes_put(at, data->classes, 4);
    at = bytes_put(at, count, 8);
    at = bytes_put(at, values.count, 8);
    at = put_floats(at, data->label + first, count);
    if (data->sparse) {
        for (size_t row = first; row < first + count; row++)
            at = bytes_put(at, data->row_start[row + 1] - data->row_start[row], 4);
        for (size_t i = 0; i < values.count; i++)
            at = bytes_put(at, data->column[values.start + i], 4);
    }
    put_floats(at, data->value + values.start, values.count);
}

static int fail(tarry_diagnostic *diagnostic, const char *what)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "samples as bytes: %s", what);
}

/* What is read, and what is left of it: the head has said that there is enough. */
typedef struct source {
    const uint8_t *at;
} source;

static uint32_t take(source *from)
{
    uint32_t value = (uint32_t)bytes_get(from->at, NUMBER_BYTES);
    from->at += NUMBER_BYTES;
    return value;
}

static float take_float(source *from)
{
    uint32_t bits = take(from);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The numbers that the body of so many rows and values holds; UINT64_MAX: more than there can be.
 */
static uint64_t body_numbers(bool sparse, uint64_t rows, uint64_t values)
{
    if (rows > UINT32_MAX || values > UINT64_MAX / 16)
        return UINT64_MAX;
    return (sparse ? 2U : 1U) * (rows + values);
}

static int read_head(const uint8_t *bytes, size_t size, dataset *made, size_t *values,
                     tarry_diagnostic *diagnostic)
{
    if (size < DATASET_CODE_HEAD_BYTES || memcmp(bytes, name, sizeof(name)) != 0)
        return fail(diagnostic, "these are none");
    source from = {bytes + sizeof(name)};
    uint32_t version = take(&from), sparse = take(&from);
    if (version != VERSION)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "samples as bytes: version %" PRIu32 " is not known", version);
    made->features = take(&from);
    made->classes = take(&from);
    uint64_t rows = bytes_get(from.at, 8), stored = bytes_get(from.at + 8, 8);
    uint64_t numbers = body_numbers(sparse == 1, rows, stored);
    size_t body = size - DATASET_CODE_HEAD_BYTES;
    if (sparse > 1 || made->features == 0 || body % NUMBER_BYTES != 0 ||
        numbers != body / NUMBER_BYTES)
        return fail(diagnostic, "their head does not fit their length");
    if (sparse == 0 && stored != rows * made->features)
        return fail(diagnostic, "rows are not of the same length");
    made->sparse = sparse == 1;
    made->rows = rows;
    *values = stored;
    return TARRY_OK;
}

static bool is_label(float label, label_kind kind, uint32_t classes)
{
    switch (kind) {
    case LABEL_REAL:
        return isfinite(label);
    case LABEL_BINARY:
        return label == 1 || label == -1;
    case LABEL_CLASS:
        return label >= 0 && label < (float)classes && label == floorf(label);
    }
    return false;
}

static int read_rows(source *from, dataset *made, size_t values, tarry_diagnostic *diagnostic)
{
    for (size_t row = 0; row < made->rows; row++) {
        size_t count = take(from);
        if (count > values - made->row_start[row])
            return fail(diagnostic, "a row has more values than there are");
        made->row_start[row + 1] = made->row_start[row] + count;
    }
    if (made->row_start[made->rows] != values)
        return fail(diagnostic, "there are more values than the rows have");
    for (size_t row = 0; row < made->rows; row++) {
        for (size_t i = made->row_start[row]; i < made->row_start[row + 1]; i++) {
            made->column[i] = take(from);
            if (made->column[i] >= made->features ||
                (i > made->row_start[row] && made->column[i] <= made->column[i - 1]))
                return fail(diagnostic, "a row's columns are out of order or range");
        }
    }
    return TARRY_OK;
}

static int read_body(source *from, label_kind labels, dataset *made, size_t values,
                     tarry_diagnostic *diagnostic)
{
    for (size_t row = 0; row < made->rows; row++) {
        made->label[row] = take_float(from);
        if (!is_label(made->label[row], labels, made->classes))
            return fail(diagnostic, "a label is not of the kind that the model wants");
    }
    int error = made->sparse ? read_rows(from, made, values, diagnostic) : TARRY_OK;
    for (size_t i = 0; error == TARRY_OK && i < values; i++) {
        made->value[i] = take_float(from);
        if (!isfinite(made->value[i]))
            error = fail(diagnostic, "a value is not finite");
    }
    return error;
}

int dataset_decode(const uint8_t *bytes, size_t size, label_kind labels,
                   const tarry_allocator *allocator, dataset **out, tarry_diagnostic *diagnostic)
{
    tarry_allocator memory = memory_allocator(allocator);
    dataset head = {.allocator = memory};
    size_t values = 0;
    int error = read_head(bytes, size, &head, &values, diagnostic);
    if (error != TARRY_OK)
        return error;
    dataset *made = memory_allocate(&memory, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "samples");
    *made = head;
    made->label = memory_allocate(&memory, made->rows, sizeof(float));
    made->value = memory_allocate(&memory, values, sizeof(float));
    bool complete = made->label != NULL && made->value != NULL;
    if (complete && made->sparse) {
        made->row_start = memory_allocate(&memory, made->rows + 1, sizeof(size_t));
        made->column = memory_allocate(&memory, values, sizeof(uint32_t));
        complete = made->row_start != NULL && made->column != NULL;
    }
    source from = {bytes + DATASET_CODE_HEAD_BYTES};
    error = complete ? read_body(&from, labels, made, values, diagnostic)
                     : diagnose_no_memory(diagnostic, "samples");
    if (error == TARRY_OK)
        *out = made;
    else
        dataset_free(made);
    return error;
}
