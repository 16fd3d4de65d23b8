/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears under its name complete or not at all: it is written without a name (or
 * beside the target, where the file system can't do that) and gets its name by a rename.
 */
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdio.h>

#include <tarry/error.h>

typedef struct output_file output_file;

/*
 * Makes sure that `path` can be written, without touching what it holds. A device or a pipe is
 * written directly. The caller owns *out and ends it with output_file_commit or
 * output_file_discard. Errors: FILE, NO_MEMORY, with a diagnostic that begins with the path.
 */
int output_file_open(const char *path, output_file **out, tarry_diagnostic *diagnostic);

/* Where to write; belongs to the file. */
FILE *output_file_stream(output_file *file);

/* Writes what is buffered and gives the file its name.
 * The file is freed, and nothing is left on failure. Errors: FILE. */
int output_file_commit(output_file *file, tarry_diagnostic *diagnostic);

/* Frees the file and leaves nothing. NULL is allowed. */
void output_file_discard(output_file *file);

#endif
