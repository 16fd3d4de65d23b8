/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a run, in the order in which they were added, in bounded memory: all but the last
 * ROUND_STORE_BLOCK are in a file without a name, if there is one. Rounds that cannot be written to
 * it stay in memory.
 */
#ifndef CLI_ROUND_STORE_H
#define CLI_ROUND_STORE_H

#include <stddef.h>

struct history_round;

enum { ROUND_STORE_BLOCK = 64 };

typedef struct round_store round_store;

/* Without a file. Errors: NO_MEMORY. */
int round_store_create(round_store **out);
void round_store_free(round_store *self); /* NULL is allowed */

/*
 * From now on rounds go to a file in the folder of `path`; if there can't be one, in that of
 * TMPDIR, or in /tmp. If none of them can hold a file, rounds stay in memory. Call it before the
 * first round.
 */
void round_store_use_file(round_store *self, const char *path);

/* Errors: NO_MEMORY; nothing is added then. */
int round_store_add(round_store *self, const struct history_round *round);
/* Round `index`, which was added. Errors: FILE (errno says why), NO_MEMORY; *out is unchanged then.
 */
int round_store_get(round_store *self, size_t index, struct history_round *out);
void round_store_clear(round_store *self);

#endif
