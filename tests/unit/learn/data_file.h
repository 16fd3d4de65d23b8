/* SPDX-License-Identifier: Apache-2.0 */
/* Small data files in a temporary directory, which is the working directory meanwhile, so that
 * messages show plain names. */
#ifndef TEST_LEARN_DATA_FILE_H
#define TEST_LEARN_DATA_FILE_H

#include "learn/dataset.h"
#include "test.h"
#include "test_file.h"

/* Set-up and tear-down of a test group. */
int data_files_begin(void **state);
int data_files_end(void **state);

void write_gzip(const char *name, const void *bytes, size_t size);

OWNED_BY(dataset, dataset_free)

dataset *read_good(dataset_source source);
/* Asserts the error, its text, and that no data set was made. */
void expect_error(dataset_source source, int error, const char *text);

/* Asserts what a data set holds; rows by rows, entries of sparse rows one after the other. */
void check_dense(const dataset *data, size_t rows, uint32_t features, const float *values,
                 const float *labels);
void check_sparse(const dataset *data, size_t rows, uint32_t features, const size_t *row_start,
                  const uint32_t *columns, const float *values, const float *labels);

/* Makes each allocation of reading fail in turn. */
void fail_allocations_of(dataset_source source);

#endif
