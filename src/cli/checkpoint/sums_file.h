/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of committed sums on disk, beside a run's checkpoints (tarry/sum_log.h): appended to and
 * synced before any worker steps. A run that goes on from a checkpoint goes back to the steps that
 * this one has; what was committed after it is void then.
 *
 * Little-endian: name 8, version 4, bytes of an entry 4; then each entry: step 8, term 4, attempt
 * 4, digest 8, and the first 8 bytes of the SHA-256 of these. An entry at the end that is torn is
 * cut off by who goes on.
 */
#ifndef CLI_SUMS_FILE_H
#define CLI_SUMS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/error.h>
#include <tarry/sum_log.h>

enum { SUMS_HEAD_BYTES = 16, SUMS_ENTRY_BYTES = 32 };

typedef struct sums_file sums_file;

/*
 * Opens, or makes, the file, which is locked with the checkpoint beside it. *log is what a server
 * starts with: for a run that goes on, the entries up to `steps`, and a term that is noted, so that
 * no other start has it; for a new one what was there of another run is dropped.
 * The caller owns *out, which `log` uses. Errors: FILE, FORMAT (no such file, or without the
 * steps), NO_MEMORY, with a diagnostic.
 */
int sums_file_open(const char *path, bool goes_on, uint64_t steps, sums_file **out,
                   tarry_sum_log *log, tarry_diagnostic *diagnostic);
void sums_file_close(sums_file *file); /* NULL is allowed */

/* What a log's bytes say, for sums_file_open: any bytes may come in. last: the entries of `steps`
 * and of the one before; *term: the highest; *valid: bytes that are whole. Errors:
 * FORMAT, with a diagnostic. */
int sums_file_read(const uint8_t *bytes, size_t size, uint64_t steps, tarry_sum_id last[2],
                   uint32_t *term, size_t *valid, tarry_diagnostic *diagnostic);

/* The step that the log at `path` is at, `steps` or later, for a run that goes on; *entry: the one
 * of `steps`. Errors: as sums_file_open. */
int sums_file_newest(const char *path, uint64_t steps, uint64_t *newest, tarry_sum_id *entry,
                     tarry_diagnostic *diagnostic);

#endif
