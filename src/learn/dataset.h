/* SPDX-License-Identifier: Apache-2.0 */
/* Samples in memory: sparse rows stay sparse (CSR), dense ones are one row-major matrix. */
#ifndef LEARN_DATASET_H
#define LEARN_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

/* Labels are kept as float32, which holds every class below this. */
#define DATASET_MAX_CLASSES (1 << 24)

typedef enum label_kind {
    LABEL_REAL,   /* any finite number (least squares) */
    LABEL_BINARY, /* -1/+1, 0/1 or 1/2; kept as -1 and +1, a 1 without company as +1 (logistic) */
    LABEL_CLASS,  /* 0, 1, 2, ... (softmax, perceptron) */
} label_kind;

typedef enum dataset_format {
    DATASET_AUTO, /* IDX by its first two bytes, LIBSVM otherwise */
    DATASET_LIBSVM,
    DATASET_IDX,
} dataset_format;

typedef struct dataset {
    tarry_allocator allocator;
    size_t rows;
    uint32_t features;
    uint32_t
        classes; /* largest label + 1 with LABEL_CLASS, 2 with LABEL_BINARY, 0 with LABEL_REAL */
    bool sparse;
    size_t *row_start; /* sparse: rows + 1 */
    uint32_t *column;  /* sparse: 0-based, ascending within a row */
    float *value;      /* sparse: as column; dense: rows x features */
    float *label;      /* rows; NULL: the samples are elsewhere, and only their sizes are known */
} dataset;

typedef struct dataset_source {
    const char *path;        /* gzip or plain; '-' is not special */
    const char *labels_path; /* IDX; NULL: path with "images-idx3" replaced by "labels-idx1" */
    dataset_format format;
    label_kind labels;
    bool zero_based; /* LIBSVM: the first index is 0 instead of 1 */
} dataset_source;

/*
 * Reads a file, gzip or plain, as a stream into *out, which the caller owns. Errors: FILE (missing,
 * unreadable), FORMAT (empty, truncated, bad label, bad index, not a number, NaN, infinite; with
 * the file and the line or byte), ARGUMENT (IDX: no labels_path and no "images-idx3" in the name),
 * NO_MEMORY. docs/data-formats.md lists what is accepted and every message.
 */
int dataset_read(const dataset_source *source, const tarry_allocator *allocator, dataset **out,
                 tarry_diagnostic *diagnostic);
void dataset_free(dataset *data); /* NULL is allowed */

typedef struct synthetic_settings {
    size_t rows;
    uint32_t features;
    label_kind labels;
    uint32_t classes; /* LABEL_CLASS: >= 2 */
    uint64_t seed;
} synthetic_settings;

/* Dense normal features, and labels from a hidden linear model with noise.
 * Errors: NO_MEMORY, ARGUMENT. */
int dataset_synthetic(const synthetic_settings *settings, const tarry_allocator *allocator,
                      dataset **out, tarry_diagnostic *diagnostic);

/*
 * Moves round(fraction * rows) rows (at least 1, at most rows - 1), drawn from the seed, out of
 * *data into *held_out; both keep the rows' order. *data is replaced. Errors: ARGUMENT (fraction
 * outside (0, 1), fewer than 2 rows), NO_MEMORY.
 */
int dataset_hold_out(dataset **data, double fraction, uint64_t seed, dataset **held_out,
                     tarry_diagnostic *diagnostic);

/*
 * Makes two data sets speak of the same features and classes: the larger number of each. Dense
 * features must agree, and sparse data have no more features than dense ones beside them. Errors:
 * FORMAT; both stay as they were.
 */
int dataset_align(dataset *train, dataset *test, tarry_diagnostic *diagnostic);

/* SHA-256 of all that is in memory of the samples, the same on every machine: by it, two processes
 * know that they train on the same data. Of samples that are elsewhere: of their sizes. Errors:
 * NO_MEMORY. */
int dataset_digest(const dataset *data, uint8_t out[32]);

/*
 * A range of a data set's rows as bytes, for a worker that has no data of its own. Little-endian:
 *   head: name 8, version 4, sparse 4, features 4, classes 4, rows 8, stored values 8
 *   body: each row's label 4; with sparse rows, each row's number of values 4 and each value's
 *     column 4; the values 4 each
 */

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
