/* SPDX-License-Identifier: Apache-2.0 */
#include "data_file.h"

#include <math.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/random.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

/* Where the head's numbers stand. */
enum { VERSION_AT = 8, SPARSE_AT = 12, FEATURES_AT = 16, CLASSES_AT = 20, ROWS_AT = 24 };

typedef struct code {
    uint8_t *bytes;
    size_t size;
} code;

static void code_free(code *of)
{
    free(of->bytes);
}
OWNED_STRUCT_BY(code, code_free)

static code code_of(const dataset *data, size_t first, size_t count)
{
    code made = {.size = dataset_encoded_size(data, first, count)};
    made.bytes = checked_malloc(made.size);
    dataset_encode(data, first, count, made.bytes);
    return made;
}

static float label_of(random_stream *stream, label_kind labels, uint32_t classes)
{
    switch (labels) {
    case LABEL_BINARY:
        return random_below(stream, 2) == 0 ? -1 : 1;
    case LABEL_CLASS:
        return (float)random_below(stream, classes);
    case LABEL_REAL:
        break;
    }
    return (float)random_normal(stream);
}

static dataset *draw(random_stream *stream, bool sparse, label_kind labels)
{
    dataset *data = memory_allocate(NULL, 1, sizeof(*data));
    assert_non_null(data);
    *data = (dataset){.allocator = memory_allocator(NULL),
                      .rows = 1 + random_below(stream, 20),
                      .features = 1 + random_below(stream, 9),
                      .classes = 3,
                      .sparse = sparse};
    size_t most = data->rows * data->features, end = 0;
    data->label = memory_allocate(NULL, data->rows, sizeof(float));
    data->value = memory_allocate(NULL, most, sizeof(float));
    data->column = memory_allocate(NULL, most, sizeof(uint32_t));
    data->row_start = memory_allocate(NULL, data->rows + 1, sizeof(size_t));
    for (size_t row = 0; row < data->rows; row++) {
        data->label[row] = label_of(stream, labels, data->classes);
        for (uint32_t column = 0; column < data->features; column++) {
            if (sparse && random_below(stream, 3) == 0)
                continue;
            data->column[end] = column;
            data->value[end++] = (float)random_normal(stream);
        }
        data->row_start[row + 1] = end;
    }
    return data;
}

static void assert_rows(const dataset *found, const dataset *all, size_t first)
{
    assert_int_equal(found->features, all->features);
    assert_int_equal(found->classes, all->classes);
    assert_int_equal(found->sparse, all->sparse);
    assert_memory_equal(found->label, all->label + first, found->rows * sizeof(float));
    size_t start = all->row_start[first];
    size_t values = all->row_start[first + found->rows] - start;
    assert_memory_equal(found->value, all->value + start, values * sizeof(float));
    if (!all->sparse)
        return;
    assert_memory_equal(found->column, all->column + start, values * sizeof(uint32_t));
    for (size_t row = 0; row <= found->rows; row++)
        assert_int_equal(found->row_start[row], all->row_start[first + row] - start);
}

TEST(every_range_comes_back)
{
    random_stream stream = random_stream_make(test_seed("dataset-code", 1), RANDOM_TEST, 0, 0);
    for (uint32_t i = 0; i < 60; i++) {
        label_kind labels = (label_kind)(i % 3);
        OWNED(dataset) data = draw(&stream, i % 2 == 0, labels);
        for (size_t first = 0; first <= data->rows; first++) {
            for (size_t count = 0; first + count <= data->rows; count++) {
                OWNED(code) made = code_of(data, first, count);
                OWNED(dataset) read;
                assert_ok(dataset_decode(made.bytes, made.size, labels, NULL, &read, NULL));
                assert_int_equal(read->rows, count);
                assert_rows(read, data, first);
            }
        }
    }
}

static void assert_refused(const uint8_t *bytes, size_t size, label_kind labels, const char *text)
{
    dataset *const untouched = (dataset *)&size;
    dataset *out = untouched;
    tarry_diagnostic why;
    assert_int_equal(dataset_decode(bytes, size, labels, NULL, &out, &why), TARRY_ERROR_FORMAT);
    assert_true(out == untouched);
    assert_says(why.text, text);
}

/* Two sparse rows, of columns 1 and 3, and of column 2. */
static code small_code(void)
{
    size_t starts[] = {0, 2, 3};
    uint32_t columns[] = {1, 3, 2};
    float values[] = {0.5F, -2, 7}, labels[] = {0, 2};
    dataset data = {.rows = 2,
                    .features = 4,
                    .classes = 3,
                    .sparse = true,
                    .row_start = starts,
                    .column = columns,
                    .value = values,
                    .label = labels};
    return code_of(&data, 0, 2);
}

enum {
    LABELS = DATASET_CODE_HEAD_BYTES,
    COUNTS = LABELS + 8,
    COLUMNS = COUNTS + 8,
    VALUES = COLUMNS + 12
};

TEST(what_can_t_be_is_refused)
{
    const float nan = NAN;
    uint32_t not_a_number;
    memcpy(&not_a_number, &nan, sizeof(nan));
    const struct {
        size_t at;
        uint32_t value;
        const char *text;
    } wrong[] = {
        {0, 0, "these are none"},
        {VERSION_AT, 2, "version 2 is not known"},
        {SPARSE_AT, 2, "head does not fit"},
        {SPARSE_AT, 0, "head does not fit"},
        {FEATURES_AT, 0, "head does not fit"},
        {FEATURES_AT, 3, "columns are out of order or range"},
        {CLASSES_AT, 2, "a label is not of the kind"},
        {ROWS_AT, 1, "head does not fit"},
        {ROWS_AT, UINT32_MAX, "head does not fit"},
        {ROWS_AT + 4, 1, "head does not fit"},
        {ROWS_AT + 12, 0x10000000, "head does not fit"},
        {ROWS_AT + 12, UINT32_MAX, "head does not fit"},
        {LABELS, 0x3f000000, "a label is not of the kind"}, /* 0.5 */
        {COUNTS, 4, "more values than there are"},
        {COUNTS, 1, "more values than the rows have"},
        {COLUMNS, 3, "columns are out of order or range"},
        {COLUMNS + 8, 4, "columns are out of order or range"},
        {VALUES, not_a_number, "not finite"},
    };
    OWNED(code) good = small_code();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t before[4];
        memcpy(before, good.bytes + wrong[i].at, 4);
        bytes_put(good.bytes + wrong[i].at, wrong[i].value, 4);
        assert_refused(good.bytes, good.size, LABEL_CLASS, wrong[i].text);
        memcpy(good.bytes + wrong[i].at, before, 4);
    }
    for (size_t size = 0; size < good.size; size++)
        assert_refused(good.bytes, size, LABEL_CLASS, "");
    assert_refused(good.bytes, good.size, LABEL_BINARY, "a label is not of the kind");
}

TEST(any_bytes_may_come_in)
{
    random_stream stream = random_stream_make(test_seed("any-bytes", 2), RANDOM_TEST, 1, 0);
    OWNED(code) good = small_code();
    size_t accepted = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t bytes[DATASET_CODE_HEAD_BYTES + 64];
        memcpy(bytes, good.bytes, good.size);
        for (uint32_t k = random_below(&stream, 4); k > 0; k--)
            bytes[random_below(&stream, (uint32_t)good.size)] = (uint8_t)random_u32(&stream);
        OWNED(dataset) read = NULL;
        if (dataset_decode(bytes, good.size, LABEL_REAL, NULL, &read, NULL) != TARRY_OK)
            continue;
        accepted++;
        OWNED(code) again = code_of(read, 0, read->rows);
        assert_int_equal(again.size, good.size);
        assert_memory_equal(again.bytes, bytes, good.size);
    }
    assert_true(accepted > 1000);
}

static int decode_once(void *user, const tarry_allocator *allocator)
{
    const code *made = user;
    OWNED(dataset) read = NULL;
    return dataset_decode(made->bytes, made->size, LABEL_CLASS, allocator, &read, NULL);
}

TEST(allocations_fail_one_by_one)
{
    OWNED(code) made = small_code();
    assert_int_equal(fail_each_allocation(decode_once, &made), 5);
}
