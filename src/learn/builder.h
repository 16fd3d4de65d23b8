/* SPDX-License-Identifier: Apache-2.0 */
/* Collects samples of a number that is not known beforehand into a data set of just their size. */
#ifndef LEARN_BUILDER_H
#define LEARN_BUILDER_H

#include "learn/dataset.h"
#include "learn/input.h"

typedef struct growing_array {
    void *elements;
    size_t size; /* bytes of an element */
    size_t length;
    size_t capacity;
} growing_array;

typedef struct dataset_builder {
    tarry_allocator allocator;
    label_kind kind;
    bool sparse;
    uint32_t features; /* dense: set by the reader; sparse: the largest column + 1 */
    growing_array value;
    growing_array column;  /* sparse */
    growing_array row_end; /* sparse */
    growing_array label;
    float largest_label;
    int other_label; /* LABEL_BINARY: which of -1, 0, 2 is told apart from 1; 1 while none was
                        seen */
} dataset_builder;

void builder_init(dataset_builder *builder, label_kind kind, bool sparse,
                  const tarry_allocator *allocator);
void builder_free(dataset_builder *builder);

/* Dense: the next values, row by row. Errors, as of all below: NO_MEMORY (no diagnostic). */
int builder_add_values(dataset_builder *builder, const float *values, size_t count);
/* Sparse: an entry of the present row; columns ascend. */
int builder_add_entry(dataset_builder *builder, uint32_t column, float value);
/* Sparse: the present row is complete. */
int builder_end_row(dataset_builder *builder);
/* The label of the next row. FORMAT, at the place of `in`:
 * the label is not of the kind asked for. */
int builder_add_label(dataset_builder *builder, float label, const input *in);

/* Makes the data set, which the caller owns; every row has its label. FORMAT, on the file as a
 * whole: no samples or no features. */
int builder_finish(dataset_builder *builder, const input *in, dataset **out);

#endif
