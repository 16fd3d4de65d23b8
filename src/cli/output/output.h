/* SPDX-License-Identifier: Apache-2.0 */
/* A command's output files, with complaints; statuses are those of complain.h and options.h. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include <tarry/error.h>

/*
 * A file that appears under its name complete or not at all: it is written without a name (or
 * beside the target, where the file system can't do that) and gets its name by a rename.
 */

typedef struct output_file output_file;

/* Where to write; belongs to the file. */
FILE *output_file_stream(output_file *file);

/* Frees the file and leaves nothing. NULL is allowed. */
void output_file_discard(output_file *file);

/*
 * Opens `path` before the work begins, so that the work is not for nothing; with a NULL path *file
 * stays as it is. Gives back OPTIONS_PROCEED, or EXIT_FAILED after a complaint.
 */
int output_begin(const char *path, output_file **file);

/* Gives *file its name, and sets it to NULL in any case: EXIT_DONE, or EXIT_FAILED after a
 * complaint. */
int output_end(output_file **file);

/*
 * The path that a rename has to replace to write `path`: what symbolic links lead to, also where
 * there is nothing there yet, and not a link. A link that the system does not follow (of a loop, or
 * of another user in a folder as /tmp) is not followed, and given back itself. The caller releases
 * it, with memory_release. NULL: no memory.
 */
char *link_target(const char *path);

#endif
