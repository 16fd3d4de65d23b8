/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's running sum where sums are secure: words of a ring, to which each credited gradient
 * is added once, and what is counted beside them. The words lie where the slate's part does.
 */
#ifndef RUNTIME_SECURE_SUM_H
#define RUNTIME_SECURE_SUM_H

#include <stdbool.h>

#include <tarry/allocator.h>
#include <tarry/secure.h>

#include "privacy/secure/secure_member.h"

typedef struct secure_sum {
    ring grid;           /* bits 0: sums are not secure */
    uint64_t chunks;     /* in it */
    uint64_t clamped;    /* numbers of these that were clamped or not finite, in all stripes */
    uint64_t generation; /* of the parameters that they were computed with */
    bool mixed;          /* these differ */
    uint64_t version;    /* no two contents of a sum have the same */
} secure_sum;

/*
 * What a worker has for the secure sums of one job: its key, the keys of the others, and the masks
 * of the attempt that it is at. docs/privacy.md argues why this is enough.
 *
 * Keys are heard in the thread that reads the connection, attempts begin and parts are masked in
 * the one that talks.
 */

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

#endif
