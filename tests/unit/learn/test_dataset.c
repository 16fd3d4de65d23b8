/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "data_file.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

/* Row i has the label i and, sparse, i % 4 entries, in the columns 0.., of the value i; dense, it
 * has 3 of them. */
static dataset *make(size_t rows, bool sparse, const tarry_allocator *allocator)
{
    tarry_allocator memory = memory_allocator(allocator);
    dataset *data = memory_allocate(&memory, 1, sizeof(*data));
    if (data == NULL)
        return NULL;
    *data =
        (dataset){.allocator = memory, .rows = rows, .features = 3, .classes = 7, .sparse = sparse};
    data->value = memory_allocate(&memory, 3 * rows, sizeof(float));
    data->label = memory_allocate(&memory, rows, sizeof(float));
    data->column = memory_allocate(&memory, 3 * rows, sizeof(uint32_t));
    data->row_start = memory_allocate(&memory, rows + 1, sizeof(size_t));
    if (data->value == NULL || data->label == NULL || data->column == NULL ||
        data->row_start == NULL) {
        dataset_free(data);
        return NULL;
    }
    for (size_t row = 0, end = 0; row < rows; row++) {
        data->label[row] = (float)row;
        for (size_t i = 0; i < (sparse ? row % 4 : 3); i++) {
            data->column[end] = (uint32_t)i;
            data->value[end++] = (float)row;
        }
        data->row_start[row + 1] = end;
    }
    return data;
}

/* Marks the data's rows as seen; asserts that each is whole and that they ascend. */
static void check_rows(const dataset *data, bool sparse, int *seen)
{
    assert_int_equal(data->features, 3);
    assert_int_equal(data->classes, 7);
    assert_int_equal(data->sparse, sparse);
    for (size_t i = 0; i < data->rows; i++) {
        size_t row = (size_t)data->label[i];
        assert_true(i == 0 || data->label[i - 1] < data->label[i]);
        seen[row]++;
        size_t start = sparse ? data->row_start[i] : 3 * i;
        size_t end = sparse ? data->row_start[i + 1] : 3 * i + 3;
        assert_int_equal(end - start, sparse ? row % 4 : 3);
        for (size_t k = start; k < end; k++) {
            assert_true(data->value[k] == (float)row);
            if (sparse)
                assert_int_equal(data->column[k], k - start);
        }
    }
}

TEST(hold_out_partitions_the_rows)
{
    uint64_t seed = test_seed("hold-out", 4);
    const struct {
        size_t rows;
        double fraction;
        size_t held;
    } cases[] = {{100, 0.2, 20}, {101, 0.5, 51}, {2, 0.01, 1}, {2, 0.99, 1}, {10, 0.999, 9}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++)
        for (int sparse = 0; sparse < 2; sparse++) {
            OWNED(dataset) data = make(cases[c].rows, sparse, NULL), held = NULL;
            assert_ok(dataset_hold_out(&data, cases[c].fraction, seed + c, &held, NULL));
            assert_int_equal(held->rows, cases[c].held);
            assert_int_equal(held->rows + data->rows, cases[c].rows);
            int seen[101] = {0};
            check_rows(data, sparse, seen);
            check_rows(held, sparse, seen);
            for (size_t row = 0; row < cases[c].rows; row++)
                assert_int_equal(seen[row], 1);
        }
}

/* Each of 10 rows is one of the 3 held out in 600 of 2000 draws, with deviation 20.5. */
TEST(every_row_is_held_out_equally_often)
{
    uint64_t seed = test_seed("equally", 5);
    int hits[10] = {0};
    for (uint64_t draw = 0; draw < 2000; draw++) {
        OWNED(dataset) data = make(10, false, NULL), held = NULL;
        assert_ok(dataset_hold_out(&data, 0.3, seed + draw, &held, NULL));
        for (size_t i = 0; i < held->rows; i++)
            hits[(size_t)held->label[i]]++;
    }
    for (size_t row = 0; row < 10; row++)
        assert_in_range(hits[row], 500, 700);
}

TEST(hold_out_refuses_what_cannot_be_split)
{
    const double fractions[] = {0, 1, -0.5, 0.0 / 0.0};
    const char *texts[] = {
        "share of held-out samples: 0 is not between 0 and 1",
        "share of held-out samples: 1 is not between 0 and 1",
        "share of held-out samples: -0.5 is not between 0 and 1",
    };
    tarry_diagnostic diagnostic;
    dataset *data = make(5, true, NULL), *held = NULL;
    const dataset *before = data;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(dataset_hold_out(&data, fractions[i], 1, &held, &diagnostic),
                         TARRY_ERROR_ARGUMENT);
        if (i < 3)
            assert_string_equal(diagnostic.text, texts[i]);
    }
    assert_ptr_equal(data, before);
    assert_null(held);
    dataset_free(data);
    data = make(1, true, NULL);
    assert_int_equal(dataset_hold_out(&data, 0.5, 1, &held, &diagnostic), TARRY_ERROR_ARGUMENT);
    assert_string_equal(diagnostic.text,
                        "samples can't be held out of a data set that has only one");
    dataset_free(data);
}

static int split(void *user, const tarry_allocator *allocator)
{
    OWNED(dataset) data = make(10, *(bool *)user, allocator), held = NULL;
    if (data == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return dataset_hold_out(&data, 0.3, 1, &held, NULL);
}

TEST(failed_allocations_are_reported)
{
    for (int sparse = 0; sparse < 2; sparse++)
        assert_int_equal(fail_each_allocation(split, &(bool){sparse}), 5 + (sparse ? 10 : 6));
}

TEST(align_takes_the_larger_numbers)
{
    dataset train = {.features = 5, .classes = 2, .sparse = true};
    dataset test = {.features = 7, .classes = 1, .sparse = true};
    assert_ok(dataset_align(&train, &test, NULL));
    assert_int_equal(train.features, 7);
    assert_int_equal(test.features, 7);
    assert_int_equal(train.classes, 2);
    assert_int_equal(test.classes, 2);
    dataset dense = {.features = 9, .classes = 3};
    assert_ok(dataset_align(&dense, &test, NULL));
    assert_int_equal(test.features, 9);
    assert_int_equal(test.classes, 3);
}

TEST(align_refuses_other_dense_features)
{
    tarry_diagnostic diagnostic;
    dataset train = {.features = 5, .classes = 2};
    dataset test = {.features = 7, .classes = 3, .sparse = true};
    for (int both = 0; both < 2; both++) {
        test.sparse = both == 0;
        assert_int_equal(dataset_align(&train, &test, &diagnostic), TARRY_ERROR_FORMAT);
        assert_string_equal(diagnostic.text, "training data have 5 features, test data 7");
        assert_int_equal(dataset_align(&test, &train, &diagnostic), TARRY_ERROR_FORMAT);
        assert_string_equal(diagnostic.text, "training data have 7 features, test data 5");
        assert_int_equal(train.features, 5);
        assert_int_equal(train.classes, 2);
    }
}

/* Each number counts, and nothing else does. */
TEST(a_digest_tells_data_apart)
{
    const synthetic_settings settings = {
        .rows = 700, .features = 3, .labels = LABEL_BINARY, .seed = 5};
    OWNED(dataset) data = NULL, same = NULL;
    assert_ok(dataset_synthetic(&settings, NULL, &data, NULL));
    assert_ok(dataset_synthetic(&settings, NULL, &same, NULL));
    uint8_t first[32], other[32];
    assert_ok(dataset_digest(data, first));
    assert_ok(dataset_digest(same, other));
    assert_memory_equal(first, other, sizeof(first));
    float *const numbers[] = {&same->value[0], &same->value[2099], &same->label[699]};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        float before = *numbers[i];
        *numbers[i] += 1;
        assert_ok(dataset_digest(same, other));
        assert_memory_not_equal(first, other, sizeof(first));
        *numbers[i] = before;
    }
}
