/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of a training with noise, beside its checkpoints: how many sums were released. An
 * entry is written and synced before the sum is used, so that however a process ends, the ledger
 * has every release; it may have one that was not used any more. A run that goes back to an earlier
 * checkpoint keeps all entries: what was released is known to whoever saw it.
 *
 * Little-endian: name 8, version 4, bytes of an entry 4, clip 8, noise 8, sample 8 (doubles); then
 * for each release: its number, from 1 on, 8, and the first 8 bytes of the SHA-256 of that. An
 * entry at the end that is torn was never synced, and is cut off by who goes on.
 */
#ifndef RELEASE_LEDGER_FILE_H
#define RELEASE_LEDGER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

enum { LEDGER_HEAD_BYTES = 40, LEDGER_ENTRY_BYTES = 16 };

/* What each release of a ledger was made with. */
typedef struct ledger_terms {
    double clip, noise, sample;
} ledger_terms;

typedef struct ledger_file ledger_file;

/*
 * Opens the file of a run that goes on, or makes that of a new one, and locks it; the caller owns
 * *out. Errors: FILE, FORMAT (no ledger, of other terms, or damaged), STATE (a new run where an
 * earlier one has released sums; another run counts there), NO_MEMORY, with a diagnostic.
 */
int ledger_file_open(const char *path, bool goes_on, const ledger_terms *terms, ledger_file **out,
                     tarry_diagnostic *diagnostic);
void ledger_file_close(ledger_file *file); /* NULL is allowed */

uint64_t ledger_file_releases(const ledger_file *file);

/* Counts one more release, durably. Errors: FILE, with a diagnostic: nothing may be released. */
int ledger_file_add(ledger_file *file, tarry_diagnostic *diagnostic);

/* What a ledger's bytes say, for ledger_file_open: any bytes may come in. Errors: FORMAT, with a
 * diagnostic. */
int ledger_file_read(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                     uint64_t *releases, tarry_diagnostic *diagnostic);

#endif
