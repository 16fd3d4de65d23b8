/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker that takes part in secure sums has fixed once, over all jobs and lives: files in
 * the folder `secure` beside its credentials, which nobody but its owner changes.
 *
 *     target    the samples that are summed: all of these, whoever asks
 *     grid      the whole numbers that gradients are rounded to
 *     lock      how far the worker has sent in its last job
 *     held      which samples each worker has held under that job's plans
 *
 * The first use of each writes it. A file that can't be read, or is none, stops the worker: it
 * never counts as missing. All are text, and are written whole and synced before they count.
 *
 * Sums over target and grid that differ a little could be subtracted from each other, and what is
 * left is of few samples; that is what these files stand against.
 */
#ifndef SECURE_PINS_H
#define SECURE_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

enum { PINS_DIGEST_BYTES = 32, PINS_JOB_BYTES = 16 };

typedef struct pins_target {
    uint8_t data[PINS_DIGEST_BYTES]; /* a digest of the samples */
    uint64_t samples;                /* how many these are */
} pins_target;

typedef struct pins_grid {
    uint32_t bits;    /* of a whole number */
    int32_t fraction; /* of these, below the point */
    double bound;     /* of a chunk's numbers */
} pins_grid;

/* A part that is sent is of an attempt of a round, in an epoch of the job. */
typedef struct pins_lock {
    uint8_t job[PINS_JOB_BYTES];      /* its id, which no other run has */
    uint64_t epoch, round, attempt;   /* the first counts most */
    uint8_t kappa[PINS_DIGEST_BYTES]; /* of all that the part and its masks depend on */
} pins_lock;

typedef struct pins pins;

/*
 * Opens the folder `secure` of a folder of credentials; a missing one is made. One process at a
 * time has it: STATE if another one does. The caller owns *out. Errors: FILE, NO_MEMORY, too, all
 * with a diagnostic, as in all that follows.
 */
int pins_open(const char *credentials, const tarry_allocator *allocator, pins **out,
              tarry_diagnostic *diagnostic);
void pins_close(pins *self); /* NULL is allowed */

/*
 * Holds the worker to a target, and to a grid; the first one is written, and *first says that.
 * Errors: STATE (another one is pinned: the diagnostic names the file, which its owner may remove),
 * FORMAT (the file is none), FILE.
 */
int pins_hold_target(pins *self, const pins_target *wanted, bool *first,
                     tarry_diagnostic *diagnostic);
int pins_hold_grid(pins *self, const pins_grid *wanted, bool *first, tarry_diagnostic *diagnostic);

/*
 * To be called before the first byte of a part is sent. In the job of the last call only what comes
 * later is allowed, or the same once more, with the same kappa; it is on disk once this returns.
 * Errors: STATE (this attempt with another kappa, or a later one, was sent), FORMAT, FILE: nothing
 * may be sent.
 */
int pins_advance(pins *self, const pins_lock *next, tarry_diagnostic *diagnostic);

/*
 * What workers held under the plans of a job so far, as the caller writes it down, in the file
 * `held`. Of another job nothing is recalled: *text is NULL; else it is the caller's, by
 * memory_release(NULL, ..). Errors: FORMAT (the file is none), FILE, NO_MEMORY.
 */
int pins_note_held(pins *self, const uint8_t job[PINS_JOB_BYTES], const char *text, size_t size,
                   tarry_diagnostic *diagnostic);
int pins_recall_held(pins *self, const uint8_t job[PINS_JOB_BYTES], char **text, size_t *size,
                     tarry_diagnostic *diagnostic);
/* The path of that file, and that of the folder; they belong to `self`. */
const char *pins_held_path(const pins *self);
const char *pins_folder(const pins *self);

#endif
