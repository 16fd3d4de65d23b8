/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kappa: the name of all that a masked part depends on. Masks are made for one kappa, so that
 * members who were told different things (by a server that lies to some) get masks that do not
 * cancel.
 *
 * Kappa therefore covers everything that all members are told alike. It leaves out what belongs
 * to one member: the worker's id, epoch and orders, its view of the holders (which the worker
 * compares with the holders), the stripes that are wanted from it, and addresses.
 */
#ifndef PRIVACY_SECURE_KAPPA_H
#define PRIVACY_SECURE_KAPPA_H

#include <stdint.h>

#include "privacy/secure/ring.h"

enum { KAPPA_BYTES = 32 };

/* Its arrays are borrowed. */
typedef struct kappa_context {
    uint8_t terms[32];      /* digest of WELCOME and SECURE, as all members get them */
    uint8_t job[32];        /* digest of the job's text */
    uint8_t target[32];     /* of the samples that are summed */
    uint8_t plan[32];       /* of the plan in force */
    uint8_t parameters[32]; /* of the round's parameters */
    uint64_t round;
    uint32_t attempt;
    ring ring;
    uint32_t colluders; /* T */
    uint32_t workers;
    const uint32_t *lives; /* per worker: its epoch; 0: it is not in the group S */
    /* Per worker, the public key of that life; not read of those that are not in S. */
    const uint8_t (*keys)[32];
    uint32_t chunks;
    const uint32_t *holders; /* pi: per chunk, the worker that it is taken from */
} kappa_context;

/*
 * SHA-256 of the canonical encoding: a label, then all of the above in this order, little-endian,
 * each field of a fixed size and each list behind its length (of keys: how many are in S). 0, or
 * TARRY_ERROR_NO_MEMORY.
 */
int kappa_digest(const kappa_context *context, uint8_t out[KAPPA_BYTES]);

#endif
