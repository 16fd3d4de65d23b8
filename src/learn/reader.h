/* SPDX-License-Identifier: Apache-2.0 */
/* One reader per format: each adds all of a file's samples to a builder, and reports what is wrong
 * with the file. Errors: FILE, FORMAT, NO_MEMORY (no diagnostic). */
#ifndef LEARN_READER_H
#define LEARN_READER_H

#include "learn/builder.h"
#include "learn/input.h"

/* Lines LABEL INDEX:VALUE ..., indices strictly ascending from `first`, 0 or 1; '#' starts a
 * comment. `guessed`: nothing but a missing name says that the file is LIBSVM, so a message may say
 * how to read another format. */
int read_libsvm(input *in, uint32_t first, bool guessed, dataset_builder *builder);
/* Comma-separated numbers (RFC 4180). *names: the first line holds column names, and is skipped. */
int read_csv(input *in, int label_column, bool *names, dataset_builder *builder);
/* The images' file and the labels' file, http://yann.lecun.com/exdb/mnist. */
int read_idx(input *images, input *labels, dataset_builder *builder);

/* Whether a file that starts with these bytes is IDX; no text does. */
bool idx_starts(const uint8_t *bytes, size_t count);

/* Room for a piece of a file in a message, and the piece in it: cut, unprintable bytes as '?'. */
typedef struct shown_text {
    char text[32];
} shown_text;
shown_text show_text(const char *text, size_t length);

#endif
