/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums in a world: beside the coefficients that every part carries there, real gradients of
 * a few numbers, rings, keys and masks, by the library that workers use. A process has one key pair
 * for its life, and each of its arrivals is known to the others by that key.
 *
 * In some worlds one worker, the misled one, gets other terms in its WELCOME than the others, often
 * another length of stripes. A server would end the run at the first sum with its part, which is
 * torn. The world goes on, and checks in each round that the tear would have been found.
 */
#ifndef WORLDS_SECURE_H
#define WORLDS_SECURE_H

#include "privacy/secure/secure_member.h"
#include "protocol/terms/terms.h"
#include "worlds/model/model.h"

enum {
    SECURE_NUMBERS = 9, /* of a stripe, at most */
    SECURE_WORDS = SECURE_NUMBERS + MASKED_COUNTS,
    SECURE_ARRIVALS = 64, /* of a worker that are known; a world has fewer that matter */
    SECURE_MASKED = 512,  /* stripes that are remembered, the latest, in a ring */
};

/* The stripe as it is sent: whole words of the ring, as the bytes lie. */
typedef struct secure_part {
    bool none; /* the masks could not be made any more */
    uint64_t words[SECURE_WORDS];
} secure_part;

/* An arrival, and the key of the process that arrived. */
typedef struct secure_arrival {
    uint32_t epoch;
    uint8_t key[AGREEMENT_KEY_BYTES];
} secure_arrival;

/* Of a worker. */
typedef struct secure_node {
    agreement *pair; /* of its process; NULL: there is none */
    secure_member *member;
    uint64_t life;                             /* whose it is */
    uint64_t sum[MAX_STRIPES][SECURE_NUMBERS]; /* its running sum: words of the ring */
    uint64_t chunks;                           /* in it */
    uint64_t clamped[MAX_STRIPES]; /* numbers beyond the bound; of all stripes in the first one */
    secure_arrival arrivals[SECURE_ARRIVALS]; /* the latest, in a ring */
    uint32_t arrival_count;
    uint32_t holders_before[MAX_CHUNKS]; /* what it masked for last; for planted errors */
    bool has_before;
} secure_node;

/* What was masked at a place, by whom. */
typedef struct secure_masked {
    uint8_t kappa[KAPPA_BYTES];
    uint32_t worker, stripe;
    uint64_t plain[SECURE_WORDS];
} secure_masked;

/* What a worker was welcomed with, and the digest of it. */
typedef struct secure_terms {
    run_terms told;
    uint8_t digest[32];
} secure_terms;

typedef struct secure_world {
    bool on;
    secure_terms terms, other_terms; /* what all are told; what the misled one is */
    uint32_t misled;                 /* MAX_WORKERS: all are told the same */
    bool reproducible;               /* which the server is told, and which changes nothing */
    ring ring;
    secure_node nodes[MAX_WORKERS];
    uint64_t sum[MAX_STRIPES][SECURE_WORDS]; /* the server's */
    uint32_t senders[MAX_STRIPES];           /* whose parts are in it, a bit each */
    secure_masked masked[SECURE_MASKED];
    uint32_t masked_count;
} secure_world;

#endif
