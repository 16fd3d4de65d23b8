/* SPDX-License-Identifier: Apache-2.0 */
/* A command's output files, with complaints; statuses are those of complain.h and options.h. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/output/output_file.h"

/*
 * Opens `path` before the work begins, so that the work is not for nothing; with a NULL path *file
 * stays as it is. Gives back OPTIONS_PROCEED, or EXIT_FAILED after a complaint.
 */
int output_begin(const char *path, output_file **file);

/* Gives *file its name, and sets it to NULL in any case: EXIT_DONE, or EXIT_FAILED after a
 * complaint. */
int output_end(output_file **file);

#endif
