/* SPDX-License-Identifier: Apache-2.0 */
/* What the tool asks of a tarry_dp beside its users. */
#ifndef RELEASE_DP_H
#define RELEASE_DP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/dp.h>
#include <tarry/error.h>

#include "privacy/keystream.h"

/*
 * The ledger of a training with noise counts how many sums were released. It is
 * kept next to the checkpoints. An entry is written and synced before the sum is used. So the
 * ledger has every release, however a process or a machine ends; the last entry may be of a sum
 * that was not used. A run that resumes from an earlier checkpoint keeps all entries.
 *
 * Little-endian: name 8, version 4, run 4 (random), clip 8, noise 8, sample 8 (doubles); then for
 * each release its number, from 1 on, 8, and its seal 8. A seal is the first 8 bytes of a SHA-256:
 * of the head for the seal of no release, and of the seal before and the number for the others. So
 * an entry of another run's ledger does not fit in.
 *
 * If the machine ends while the last entry is written, the entry is torn: the first bytes of it,
 * and nothing or zeros after them. It counts as a release, because it cannot be told from an entry
 * that was cut off later. The next release completes it.
 */

enum { LEDGER_HEAD_BYTES = 40, LEDGER_ENTRY_BYTES = 16 };

/* What each release of a ledger was made with. */
typedef struct ledger_terms {
    double clip, noise, sample;
} ledger_terms;

typedef struct ledger_file ledger_file;

/*
 * Opens the ledger of a run that resumes (goes_on), or creates the one of a new run; locks and
 * syncs the file and its folder. The caller owns *out. Errors: FILE, FORMAT (not a ledger, of other
 * terms, or damaged), STATE (a new run would take the place of a ledger with releases; another run
 * counts there), SYSTEM (no random numbers), NO_MEMORY, with a diagnostic.
 */
int ledger_file_open(const char *path, bool goes_on, const ledger_terms *terms, ledger_file **out,
                     tarry_diagnostic *diagnostic);
void ledger_file_close(ledger_file *file); /* NULL is allowed */

uint64_t ledger_file_releases(const ledger_file *file);

/* Where the ledger is after its last whole entry: a checkpoint keeps this. */
tarry_dp_mark ledger_file_mark(const ledger_file *file);

/*
 * TARRY_OK if the ledger has whole entries for all releases of a checkpoint that was written after
 * `rounds` rounds, at that mark. These entries were synced before the checkpoint: if one of them is
 * missing or torn, the file was cut off, and later ones may be missing as well. Errors: FORMAT
 * (fewer releases, or another run's), FILE, NO_MEMORY, with a diagnostic that names both
 * counts.
 */
int ledger_file_covers(const ledger_file *file, const tarry_dp_mark *mark, uint64_t rounds,
                       tarry_diagnostic *diagnostic);

/* Counts one more release, durably. Errors: FILE, NO_MEMORY, with a diagnostic: nothing may be
 * released. After a sync that failed all later calls fail, because what is on disk is not known. */
int ledger_file_add(ledger_file *file, tarry_diagnostic *diagnostic);

/* What the bytes of a ledger mean: whole entries, and perhaps a torn one. Both count. */
typedef struct ledger_content {
    uint64_t whole;
    uint64_t seal; /* of the last whole entry */
    bool torn;
} ledger_content;

/* For ledger_file_open: any bytes may come in. Errors: FORMAT, NO_MEMORY, with a diagnostic. */
int ledger_file_read(const uint8_t *bytes, size_t size, const ledger_terms *terms,
                     ledger_content *content, tarry_diagnostic *diagnostic);

/* As tarry_dp_create; the ledger is borrowed, and NULL where there is none. */
int dp_create(const tarry_dp_terms *terms, uint64_t samples, ledger_file *ledger, tarry_dp **out,
              tarry_diagnostic *diagnostic);

/* As tarry_dp_release; errors name the round. */
int dp_release(tarry_dp *self, uint64_t round, float *sum, size_t count,
               tarry_diagnostic *diagnostic);

const tarry_dp_terms *dp_terms(const tarry_dp *self);
/* What samples are drawn by where all is in one process. */
const sampler *dp_draws(const tarry_dp *self);

#endif
