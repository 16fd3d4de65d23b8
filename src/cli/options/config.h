/* SPDX-License-Identifier: Apache-2.0 */
/* A job file: lines 'key = value' without sections; '#' and ';' begin a comment. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stddef.h>

#include <tarry/error.h>

typedef struct config_entry {
    char *key;
    char *value;
    unsigned line; /* counts from 1 */
} config_entry;

typedef struct config_file {
    config_entry *entries; /* in the file's order */
    size_t count;
    size_t capacity;
} config_file;

/*
 * Reads `path`. The caller owns *out and frees it with config_free. Errors, with file and line:
 * FILE (missing, unreadable), FORMAT (a line that is too long, in a section or not 'key = value'),
 * NO_MEMORY.
 */
int config_read(const char *path, config_file **out, tarry_diagnostic *diagnostic);
void config_free(config_file *file); /* NULL is allowed */

#endif
