/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints on disk: FILE and, as long as it was a good one, the one before it as FILE.previous.
 * However a process or machine ends, one of both is good, and FILE is there once it was: a
 * checkpoint is written to FILE.new and synced, and takes its place by a rename. (Without hard
 * links FILE is missing for a moment.) Files can be read and written by their owner only. While
 * they are open FILE.lock is locked, so that no other process writes them; it is empty, and removed
 * at the end.
 */
#ifndef CLI_CHECKPOINT_FILE_H
#define CLI_CHECKPOINT_FILE_H

#include <stdbool.h>

#include "cli/checkpoint/checkpoint.h"

typedef struct checkpoint_file checkpoint_file;

/* The caller owns *out. Errors: FILE (the name is that of a folder or a device, or another process
 * has it open), NO_MEMORY, with a diagnostic. */
int checkpoint_file_open(const char *path, checkpoint_file **out, tarry_diagnostic *diagnostic);
void checkpoint_file_close(checkpoint_file *file); /* NULL is allowed */

/* FILE.history, for the rounds that a checkpoint counts on (history_log.h); the file's. */
const char *checkpoint_file_history(const checkpoint_file *file);
/* FILE.sums, for the log of committed sums (sums_file.h); the file's. */
const char *checkpoint_file_sums(const checkpoint_file *file);
/* FILE.privacy, for the ledger of releases (ledger_file.h); the file's. */
const char *checkpoint_file_ledger(const checkpoint_file *file);

/* Whether there is a FILE or a FILE.previous. */
bool checkpoint_file_exists(const checkpoint_file *file);

/* What a checkpoint has to stand besides: `accept` gives back TARRY_OK, or FILE, FORMAT or
 * NO_MEMORY with a diagnostic. */
typedef struct checkpoint_test {
    int (*accept)(void *user, const checkpoint *state, tarry_diagnostic *diagnostic);
    void *user;
} checkpoint_test;

/*
 * Reads FILE or, where it is missing or damaged, or fails the test (NULL: there is none),
 * FILE.previous: `fault` then says why, and is empty otherwise. The parts and vectors belong to the
 * file, until it is closed or checkpoint_file_forget. Errors: FILE, FORMAT (none of both is good;
 * diagnostic tells of FILE), NO_MEMORY.
 */
int checkpoint_file_read(checkpoint_file *file, checkpoint *state,
                         const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                         tarry_diagnostic *fault, tarry_diagnostic *diagnostic);
void checkpoint_file_forget(checkpoint_file *file);

/* Writes FILE; what was there becomes FILE.previous if it was read or written by this process.
 * Errors: FILE, NO_MEMORY, with a diagnostic; one of both is good then as before. */
int checkpoint_file_write(checkpoint_file *file, const checkpoint *state,
                          const float *const vectors[], tarry_diagnostic *diagnostic);

#endif
