/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEARN_DATASET_READ_H
#define LEARN_DATASET_READ_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "learn/dataset.h"

/* A data file as a stream of lines or bytes, gzip or plain, which knows its place for messages. */

typedef struct input {
    const char *path; /* borrowed */
    tarry_allocator allocator;
    tarry_diagnostic *diagnostic;
    gzFile file; /* zlib takes its own memory */
    locale_t c_locale;
    char *buffer; /* what is read and not yet given is start..end - 1 */
    size_t capacity;
    size_t start;
    size_t end;
    uint64_t taken;    /* bytes given so far */
    uint64_t line;     /* of the line last given, counted from 1; 0: bytes are being read */
    uint64_t position; /* of the first byte that was last given; a reader may move it on */
} input;

/* *in is closed by input_close, also when this fails. Errors, as of all below: FILE, FORMAT (gzip
 * data that are corrupt or end early; a NUL byte in a line), NO_MEMORY (no diagnostic). */
int input_open(input *in, const char *path, const tarry_allocator *allocator,
               tarry_diagnostic *diagnostic);
void input_close(input *in);

/* The next `count` bytes, or as many as are left,
 * borrowed until the next call; they stay to be read. */
int input_peek(input *in, size_t count, const uint8_t **bytes, size_t *got);
/* The same, and takes them. */
int input_bytes(input *in, size_t count, const uint8_t **bytes, size_t *got);
/* The next line, without its end (\n or \r\n) and, in line 1, without the byte order mark of UTF-8,
 * with a NUL after it, borrowed until the next call.
 * *found is false, and nothing else set, at the file's end. */
int input_line(input *in, const char **line, size_t *length, bool *found);

/* Reports FORMAT at the place of what was last given:
 * "PATH:LINE: ..." or "PATH: byte POSITION: ...". */
__attribute__((format(printf, 2, 3))) int input_fail(const input *in, const char *format, ...);
/* Reports FORMAT on the file as a whole: "PATH: ...". */
__attribute__((format(printf, 2, 3))) int input_fail_whole(const input *in, const char *format,
                                                           ...);

/* Collects samples of a number that is not known beforehand into a data set of just their size. */

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

#endif
