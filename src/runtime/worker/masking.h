/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker has for the secure sums of one job: its key, the keys of the others, and the masks
 * of the attempt that it is at. docs/privacy.md argues why this is enough.
 *
 * Keys are heard in the thread that reads the connection, attempts begin and parts are masked in
 * the one that talks.
 */
#ifndef RUNTIME_MASKING_H
#define RUNTIME_MASKING_H

#include <stdbool.h>

#include <tarry/secure.h>

typedef struct masking masking;

enum { MASKING_KEY_BYTES = 32 };

typedef struct masking_settings {
    tarry_secure_rules rules;
    uint32_t worker, workers;
    uint8_t job_id[TARRY_JOB_ID_SIZE];
    uint8_t terms[TARRY_DIGEST_SIZE];  /* of what all workers were told of the run */
    uint8_t job[TARRY_DIGEST_SIZE];    /* of its id and text */
    uint8_t target[TARRY_DIGEST_SIZE]; /* of what sums are of */
    tarry_secure_member member;        /* whose lock is called */
} masking_settings;

/* Draws a key. Errors: NO_MEMORY, SYSTEM, ARGUMENT. */
int masking_create(const masking_settings *settings, const tarry_allocator *allocator,
                   masking **made);
void masking_free(masking *self); /* nothing secret is left; NULL is allowed */

/* The own public key. */
const uint8_t *masking_key(const masking *self);

/* Another worker is there, in this epoch, with a key that was verified. Errors: ARGUMENT (no such
 * worker, the own, or no key), NO_MEMORY. */
int masking_hear(masking *self, uint32_t worker, uint32_t epoch,
                 const uint8_t key[MASKING_KEY_BYTES]);

/* The server has welcomed the worker again, to the same job: attempts that begin from now on are
 * for these terms. */
void masking_set_terms(masking *self, const uint8_t terms[TARRY_DIGEST_SIZE]);

/* A number that was not given before. */
uint64_t masking_next_version(masking *self);

/* An attempt, as SIGNAL names it; borrowed for the call. */
typedef struct masking_attempt {
    uint32_t epoch;
    uint64_t round;
    uint32_t attempt;
    const tarry_plan *plan;
    const uint8_t *parameters; /* digest of those of the round, TARRY_DIGEST_SIZE bytes */
    const uint32_t *holders;   /* per chunk: who sends it */
    const uint32_t *lives;     /* per worker: its epoch, or 0 where it sends nothing */
    uint64_t version;          /* of what is to be masked */
} masking_attempt;

/*
 * Begins the attempt, which is noted by the lock before this returns; or goes on with it, if it is
 * the same in all, and of the same content. *ready: parts may be masked now; false: it names a life
 * that is over, or that nobody has told of, and nothing is to be sent. Errors: whatever forbids to
 * send anything any more, with a diagnostic.
 */
int masking_begin(masking *self, const masking_attempt *attempt, bool *ready,
                  tarry_diagnostic *diagnostic);
/*
 * Of the numbers of the gradients in a part, so many are beyond the bound. Errors: STATE (more than
 * the member allows: nothing of them may be sent, and the diagnostic names round, share and bound).
 */
int masking_check_clamped(const masking *self, uint64_t round, uint64_t clamped, uint64_t numbers,
                          tarry_diagnostic *diagnostic);
/* Writes to `words` those at `from`, which may be the same place, plus the masks of the numbers
 * first .. first + count - 1 of the whole vector, in the attempt. Errors: SYSTEM. */
int masking_apply(masking *self, uint64_t first, const void *from, void *words, size_t count);
/* Adds the masks of the MASKED_COUNTS words behind the stripe that begins with the number `first`.
 * Errors: SYSTEM. */
int masking_apply_counts(masking *self, uint64_t first, void *words);

#endif
