/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a run in a file that is only appended to, beside its checkpoints. A checkpoint says
 * how many rounds of it count, and their seal; rounds are synced before it is written. So each
 * checkpoint finds its rounds, however the process or the machine ended, and what a process wrote
 * behind them, the last of it maybe torn, is cut off by who goes on.
 *
 * Little-endian: name 8, version 4, bytes of a round 4, first round 8; then each round,
 * HISTORY_ROUND_BYTES. The first round is 0, unless an earlier file was damaged: then rounds before
 * it are not known. The seal of no round is the first round, 8, and zeros. The seal of n rounds is
 * the SHA-256 of the seal of n - 1 rounds and the last round's bytes.
 */
#ifndef CLI_HISTORY_LOG_H
#define CLI_HISTORY_LOG_H

#include "cli/checkpoint/history.h"

enum { HISTORY_LOG_HEAD_BYTES = 24, HISTORY_LOG_DIGEST_SIZE = 32 };

typedef struct history_log history_log;

/* path is borrowed. Nothing is opened before it is read or written. Errors: NO_MEMORY. */
int history_log_create(const char *path, history_log **out);
void history_log_free(history_log *log); /* NULL is allowed */

/*
 * Fills `past`, new, with the first `count` rounds, behind which history_log_append goes on; NULL:
 * only sees that they are there. A file of no round need not be. Errors: FILE, FORMAT (another
 * seal, a round that can't be), NO_MEMORY, with a diagnostic.
 */
int history_log_read(history_log *log, size_t count, const uint8_t seal[HISTORY_LOG_DIGEST_SIZE],
                     history *past, tarry_diagnostic *diagnostic);

/*
 * Adds the rounds of `past` that are not in the file, and syncs it; `seal` is that of all. A file
 * that lost what was there, or is of another run, is written anew. Errors: FILE, NO_MEMORY, with a
 * diagnostic; the next call tries again.
 */
int history_log_append(history_log *log, const history *past, uint8_t seal[HISTORY_LOG_DIGEST_SIZE],
                       tarry_diagnostic *diagnostic);

/* The same of bytes: *seal becomes the seal of rounds *first..count - 1. Any bytes may come in.
 * Errors: FORMAT (not such a file, fewer rounds), NO_MEMORY (for a digest). */
int history_log_seal(const uint8_t *bytes, size_t size, size_t count,
                     uint8_t seal[HISTORY_LOG_DIGEST_SIZE], size_t *first,
                     tarry_diagnostic *diagnostic);
/* Fills `past` with rounds first..count - 1, whose seal was checked. Errors: FORMAT,
 * NO_MEMORY; *past has no rounds then. */
int history_log_rounds(const uint8_t *bytes, size_t first, size_t count, history *past);
/* What a file has before its first round. */
void history_log_head(size_t first, uint8_t head[HISTORY_LOG_HEAD_BYTES]);

#endif
