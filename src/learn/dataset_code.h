/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of a data set's rows as bytes, for a worker that has no data of its own. Little-endian:
 *   head: name 8, version 4, sparse 4, features 4, classes 4, rows 8, stored values 8
 *   body: each row's label 4; with sparse rows, each row's number of values 4 and each value's
 *     column 4; the values 4 each
 */
#ifndef LEARN_DATASET_CODE_H
#define LEARN_DATASET_CODE_H

#include "learn/dataset.h"

enum { DATASET_CODE_HEAD_BYTES = 40 };

/* Of rows first .. first + count - 1, which the data set has. */
size_t dataset_encoded_size(const dataset *data, size_t first, size_t count);
/* Writes dataset_encoded_size bytes. */
void dataset_encode(const dataset *data, size_t first, size_t count, uint8_t *bytes);

/*
 * Reads rows that are the same as those written, to the bit; the caller owns *out. Any bytes may
 * come in: what takes memory is in proportion to `size`. Errors: FORMAT (no samples, another
 * version, too short or too long, columns that don't ascend or are none, numbers that are not
 * finite, a label that is not of this kind), NO_MEMORY.
 */
int dataset_decode(const uint8_t *bytes, size_t size, label_kind labels,
                   const tarry_allocator *allocator, dataset **out, tarry_diagnostic *diagnostic);

#endif
