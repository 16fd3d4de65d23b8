/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FILE_WHOLE_FILE_H
#define FILE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

/* All bytes of a regular file; the caller releases *bytes with memory_release. Errors: FILE,
 * NO_MEMORY, with a diagnostic that names the path. */
int whole_file_read(const char *path, uint8_t **bytes, size_t *size, tarry_diagnostic *diagnostic);

/* Writes all bytes, from that place of the file on; does not sync. False: errno says why. */
bool whole_file_write_at(int descriptor, const uint8_t *bytes, size_t size, size_t offset);

/* Syncs the folder that holds the file: a file that was created or renamed can be lost in a crash
 * of the machine until its folder is synced. True also on file systems that cannot sync folders.
 * False: errno gives the reason. */
bool whole_file_sync_folder(const char *path);

#endif
