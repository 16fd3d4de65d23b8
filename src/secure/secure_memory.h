/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SECURE_SECURE_MEMORY_H
#define SECURE_SECURE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/plan.h>

#include "plan/exposure/exposure.h"

/*
 * Which samples each worker has held under the plans of a job: what colluders among them may know.
 * A plan alone does not tell: with one after the other, a few workers could be given all chunks.
 */

/* Which samples the original chunks of a plan are. */
typedef struct held_cut {
    uint64_t samples; /* in all */
    uint32_t origins;
    /* Chunk i has the samples begins[i] .. begins[i + 1] - 1, the first one 0 and the last one all
     * before `samples`. NULL: floor(i samples / origins) stands for begins[i]. */
    const uint64_t *begins;
} held_cut;

/*
 * Adds the holdings of a plan of these samples. Errors: FORMAT (its spans do not cover all samples
 * exactly once, with a diagnostic; what was held before stays), NO_MEMORY (a part of the plan may
 * have been added).
 */
int held_add(exposure *held, const tarry_plan *plan, const held_cut *cut,
             tarry_diagnostic *diagnostic);

/* Which chunk of a plan that held_add has taken has the fewest samples, and how many these are. */
uint64_t held_smallest(const tarry_plan *plan, const held_cut *cut, uint32_t *chunk);

/* How many samples the largest original chunk has. */
uint64_t held_largest_origin(const held_cut *cut);

/* A lower bound of how many of the samples no `colluders` workers have held, whichever these are
 * (plan/exposure); with few workers, how many these are. Errors: NO_MEMORY. */
int held_left(exposure *held, uint64_t samples, uint32_t colluders, uint64_t *left);

/* All of it as text, the caller's by memory_release(NULL, ..), and back: any bytes may come in, of
 * samples below `samples`. Errors: FORMAT, NO_MEMORY. */
int held_write(exposure *held, char **text, size_t *size);
int held_read(const char *text, size_t size, uint64_t samples, exposure **out);

/*
 * What a worker of secure sums remembers over its lives. The files are in the folder `secure` of
 * its credentials, and only its owner changes them:
 *
 *     target       the samples that are summed: all of them, in every job
 *     grid         the whole numbers that gradients are rounded to
 *     held-TARGET  which samples each worker has held under the plans of all jobs over that target
 *     lock-JOB     how far the worker has sent in that job
 *
 * TARGET and JOB are hexadecimal digits. A server chooses the ids of jobs, and the order of its
 * jobs. So no job makes the worker forget what it did in another one. Only its owner removes files.
 *
 * A file that can't be read, or has other content, stops the worker: it never counts as missing.
 * All are text. Each is written to another name, synced, and renamed, and its folder is synced.
 *
 * Sums over target and grid that differ a little could be subtracted from each other, and what is
 * left is of few samples; that is what these files stand against.
 */

enum {
    PINS_DIGEST_BYTES = 32,
    PINS_JOB_BYTES = 16,
    PINS_MOST_JOBS = 10000, /* that have a lock: about 40 MB of disk */
};

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
 * Compares a target, or a grid, with the pinned one, and writes nothing; *pinned is false if none
 * was written yet. Errors: STATE (another one is pinned: the diagnostic names the file, which its
 * owner may remove), FORMAT (the file is damaged), FILE.
 */
int pins_check_target(const pins *self, const pins_target *wanted, bool *pinned,
                      tarry_diagnostic *diagnostic);
int pins_check_grid(const pins *self, const pins_grid *wanted, bool *pinned,
                    tarry_diagnostic *diagnostic);
/* Pins them, in the place of any that is there. Errors: FILE. */
int pins_write_target(pins *self, const pins_target *target, tarry_diagnostic *diagnostic);
int pins_write_grid(pins *self, const pins_grid *grid, tarry_diagnostic *diagnostic);

/*
 * To be called before the first byte of a part is sent. Within a job only what comes later than
 * the last call is allowed, or the same once more, with the same kappa, with any other jobs in
 * between; it is on disk once this returns. Errors: STATE (this attempt with another kappa, or
 * a later one, was sent; or PINS_MOST_JOBS others have a lock), FORMAT, FILE: nothing may be sent.
 */
int pins_advance(pins *self, const pins_lock *next, tarry_diagnostic *diagnostic);

/*
 * What workers held under all plans over a target so far, as the caller writes it down. *text is
 * NULL without a record of that target; else it is the caller's, by memory_release(NULL, ..).
 * Errors: STATE (more bytes than such a file may have), FORMAT (the file is damaged), FILE,
 * NO_MEMORY.
 */
int pins_write_held(pins *self, const uint8_t target[PINS_DIGEST_BYTES], const char *text,
                    size_t size, tarry_diagnostic *diagnostic);
int pins_recall_held(const pins *self, const uint8_t target[PINS_DIGEST_BYTES], char **text,
                     size_t *size, tarry_diagnostic *diagnostic);

#endif
