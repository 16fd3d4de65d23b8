/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/builder.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_CAPACITY = 256 };

#define BINARY_LABELS "two classes are -1 and 1, 0 and 1, or 1 and 2"

/* Makes room for `count` more elements, at least doubling. */
static int reserve(const tarry_allocator *allocator, growing_array *array, size_t count)
{
    if (count <= array->capacity - array->length)
        return TARRY_OK;
    if (array->capacity > SIZE_MAX / 2 - FIRST_CAPACITY || count > SIZE_MAX / 2)
        return TARRY_ERROR_NO_MEMORY;
    size_t capacity = 2 * array->capacity + FIRST_CAPACITY;
    if (capacity < array->length + count)
        capacity = array->length + count;
    void *elements = memory_allocate(allocator, capacity, array->size);
    if (elements == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (array->length > 0)
        memcpy(elements, array->elements, array->length * array->size);
    memory_release(allocator, array->elements);
    array->elements = elements;
    array->capacity = capacity;
    return TARRY_OK;
}

/* Hands over the elements in a block of just their size; NULL if there is no memory. */
static void *trim(const tarry_allocator *allocator, growing_array *array)
{
    void *elements = memory_allocate(allocator, array->length, array->size);
    if (elements != NULL && array->length > 0)
        memcpy(elements, array->elements, array->length * array->size);
    memory_release(allocator, array->elements);
    array->elements = NULL;
    return elements;
}

void builder_init(dataset_builder *builder, label_kind kind, bool sparse,
                  const tarry_allocator *allocator)
{
    *builder = (dataset_builder){
        .allocator = memory_allocator(allocator),
        .kind = kind,
        .sparse = sparse,
        .value = {.size = sizeof(float)},
        .column = {.size = sizeof(uint32_t)},
        .row_end = {.size = sizeof(size_t)},
        .label = {.size = sizeof(float)},
        .other_label = 1,
    };
}

void builder_free(dataset_builder *builder)
{
    memory_release(&builder->allocator, builder->value.elements);
    memory_release(&builder->allocator, builder->column.elements);
    memory_release(&builder->allocator, builder->row_end.elements);
    memory_release(&builder->allocator, builder->label.elements);
}

int builder_add_values(dataset_builder *builder, const float *values, size_t count)
{
    int error = reserve(&builder->allocator, &builder->value, count);
    if (error != TARRY_OK)
        return error;
    memcpy((float *)builder->value.elements + builder->value.length, values, count * sizeof(float));
    builder->value.length += count;
    return TARRY_OK;
}

int builder_add_entry(dataset_builder *builder, uint32_t column, float value)
{
    int error = reserve(&builder->allocator, &builder->column, 1);
    if (error == TARRY_OK)
        error = builder_add_values(builder, &value, 1);
    if (error != TARRY_OK)
        return error;
    ((uint32_t *)builder->column.elements)[builder->column.length++] = column;
    if (column >= builder->features)
        builder->features = column + 1;
    return TARRY_OK;
}

int builder_end_row(dataset_builder *builder)
{
    int error = reserve(&builder->allocator, &builder->row_end, 1);
    if (error == TARRY_OK)
        ((size_t *)builder->row_end.elements)[builder->row_end.length++] = builder->value.length;
    return error;
}

/* 1 is in each of the pairs, so at most one of the other three may occur. */
static int check_binary(dataset_builder *builder, float label, const input *in)
{
    if (label == 1)
        return TARRY_OK;
    if (label != -1 && label != 0 && label != 2)
        return input_fail(in, "label %.9g (" BINARY_LABELS ")", (double)label);
    if (builder->other_label != 1 && builder->other_label != (int)label)
        return input_fail(in, "label %d beside label %d (" BINARY_LABELS ")", (int)label,
                          builder->other_label);
    builder->other_label = (int)label;
    return TARRY_OK;
}

static int check_class(float label, const input *in)
{
    if (label >= 0 && label < DATASET_MAX_CLASSES && label == floorf(label))
        return TARRY_OK;
    return input_fail(in, "label %.9g (classes are 0, 1, 2, ..., at most %d)", (double)label,
                      DATASET_MAX_CLASSES - 1);
}

int builder_add_label(dataset_builder *builder, float label, const input *in)
{
    int error = TARRY_OK;
    if (builder->kind == LABEL_BINARY)
        error = check_binary(builder, label, in);
    else if (builder->kind == LABEL_CLASS)
        error = check_class(label, in);
    if (error == TARRY_OK)
        error = reserve(&builder->allocator, &builder->label, 1);
    if (error != TARRY_OK)
        return error;
    ((float *)builder->label.elements)[builder->label.length++] = label;
    builder->largest_label = fmaxf(builder->largest_label, label);
    return TARRY_OK;
}

static uint32_t class_count(const dataset_builder *builder)
{
    switch (builder->kind) {
    case LABEL_REAL:
        return 0;
    case LABEL_BINARY:
        return 2;
    case LABEL_CLASS:
        break;
    }
    return (uint32_t)builder->largest_label + 1;
}

/* The larger of the file's two labels becomes 1, the smaller -1; a lone 1 stays. */
static void name_binary_labels(dataset *data, int other_label)
{
    float larger = other_label == 2 ? 2 : 1;
    for (size_t row = 0; row < data->rows; row++)
        data->label[row] = data->label[row] == larger ? 1 : -1;
}

int builder_finish(dataset_builder *builder, const input *in, dataset **out)
{
    size_t rows = builder->label.length;
    if (rows == 0)
        return input_fail_whole(in, "no samples");
    if (builder->features == 0)
        return input_fail_whole(in, "no features");
    assert(builder->sparse ? builder->row_end.length == rows
                           : builder->value.length == rows * builder->features);
    tarry_allocator memory = builder->allocator;
    dataset *data = memory_allocate(&memory, 1, sizeof(*data));
    if (data == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *data = (dataset){
        .allocator = memory,
        .rows = rows,
        .features = builder->features,
        .classes = class_count(builder),
        .sparse = builder->sparse,
        .value = trim(&memory, &builder->value),
        .label = trim(&memory, &builder->label),
    };
    if (data->sparse) {
        data->column = trim(&memory, &builder->column);
        data->row_start = memory_allocate(&memory, rows + 1, sizeof(size_t));
    }
    if (data->value == NULL || data->label == NULL ||
        (data->sparse && (data->column == NULL || data->row_start == NULL))) {
        dataset_free(data);
        return TARRY_ERROR_NO_MEMORY;
    }
    if (data->sparse)
        memcpy(data->row_start + 1, builder->row_end.elements, rows * sizeof(size_t));
    if (builder->kind == LABEL_BINARY)
        name_binary_labels(data, builder->other_label);
    *out = data;
    return TARRY_OK;
}
