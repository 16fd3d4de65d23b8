/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WHOLE_FILE_H
#define CLI_WHOLE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

/* All bytes of a regular file; the caller releases *bytes with memory_release. Errors: FILE,
 * NO_MEMORY, with a diagnostic that names the path. */
int whole_file_read(const char *path, uint8_t **bytes, size_t *size, tarry_diagnostic *diagnostic);

#endif
