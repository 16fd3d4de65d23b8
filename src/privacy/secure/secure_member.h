/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker needs to mask its parts: its own key pair, the public keys of the others, and the
 * mask keys of the attempt that it takes part in. It checks no signature: who calls
 * secure_member_hear has done so.
 *
 * It masks for one kappa at a time, and never goes back: what it does after that of another one is
 * never masked with the same keys. All secrets are wiped as soon as they are replaced, and when it
 * is freed.
 */
#ifndef PRIVACY_SECURE_MEMBER_H
#define PRIVACY_SECURE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>

#include "privacy/secure/masks.h"
#include "privacy/secure/ring.h"

/*
 * Keys that two members agree on over a server that reads along: X25519 (RFC 7748), and HKDF with
 * SHA-256 (RFC 5869). One key pair per process life; its private half never leaves this object, and
 * is wiped with it.
 */

enum { AGREEMENT_KEY_BYTES = 32 };

typedef struct agreement agreement;

/* A new key pair from the system's random numbers; NULL: no memory, or no random numbers. */
agreement *agreement_create(void);
/* For tests: the key pair whose private key these bytes are. NULL: no memory. */
agreement *agreement_of_seed(const uint8_t seed[AGREEMENT_KEY_BYTES]);
void agreement_free(agreement *self); /* NULL is allowed */

const uint8_t *agreement_public_key(const agreement *self); /* AGREEMENT_KEY_BYTES of them */

/*
 * What both get out of their own private and the other's public key. Secret; the caller wipes it
 * (OPENSSL_cleanse). Errors: ARGUMENT (the other's key is one of the few with which every secret is
 * zero), NO_MEMORY.
 */
int agreement_secret(const agreement *self, const uint8_t other[AGREEMENT_KEY_BYTES],
                     uint8_t secret[AGREEMENT_KEY_BYTES]);

/* A member, as the mask keys name it. */
typedef struct agreement_member {
    uint32_t id;
    const uint8_t *key; /* public */
} agreement_member;

/* The keys of two streams of masks, which have nothing to do with each other: one for the numbers
 * of the vector, one for what is counted about them (secure_member.h). */
typedef struct agreement_mask_keys {
    uint8_t numbers[MASK_KEY_BYTES], counts[MASK_KEY_BYTES];
} agreement_mask_keys;

/* The keys of the masks between two members, lower.id < higher.id, in the attempt that kappa names:
 * the first and the second 32 bytes of HKDF. Errors: NO_MEMORY. */
int agreement_make_mask_keys(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                             agreement_member lower, agreement_member higher,
                             const uint8_t kappa[32], agreement_mask_keys *keys);

/*
 * kappa: the name of all that a masked part depends on. Masks are made for one kappa, so that
 * members who were told different things (by a server that lies to some) get masks that do not
 * cancel.
 *
 * Kappa therefore covers everything that all members are told alike. It leaves out what belongs
 * to one member: the worker's id, epoch and orders, its view of the holders (which the worker
 * compares with the holders), the stripes that are wanted from it, and addresses.
 */

enum { KAPPA_BYTES = 32 };

/* Its arrays are borrowed. */
typedef struct kappa_context {
    uint8_t terms[32];      /* digest of the run's terms, as all members are told them */
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

/*
 * Which members of a group share masks. Whatever at most `colluders` members are taken out, the
 * others stay connected: so their parts, unmasked as far as the colluders can, show the sum of all
 * others' parts and nothing else.
 *
 * Up to MASK_GRAPH_COMPLETE members, all do with all. Larger groups form a circle on which each
 * shares masks with the h before and the h behind it, h = ceil(k / 2), k = max(colluders + 1,
 * MASK_GRAPH_DEGREE): a Harary graph, which needs 2 h members taken out before it falls apart
 * (Harary, The maximum connectivity of a graph, PNAS 48 (1962), 1142-1146).
 */

enum { MASK_GRAPH_COMPLETE = 33, MASK_GRAPH_DEGREE = 32 };

/* How many neighbours each of `members` (1 or more) has. */
uint32_t mask_graph_degree(uint32_t members, uint32_t colluders);

/* The neighbours of the member at `position` (0..members-1), ascending, as many as that. */
void mask_graph_neighbours(uint32_t members, uint32_t colluders, uint32_t position,
                           uint32_t *neighbours);

/* What must hold of an encode signal before a worker masks anything for it. */

/* A signal, as the worker `id` got it. Arrays are borrowed. */
typedef struct secure_signal {
    uint32_t workers, chunks;
    const uint32_t *holders; /* pi: per chunk, the worker that it is taken from */
    const uint32_t *lives;   /* per worker: its epoch; 0: not in S */
    /* The plan's views of who holds what (plan.h): holder_worker[chunk_offset[i]] ..
     * [chunk_offset[i + 1] - 1] are the holders of chunk i, slot_chunk[worker_offset[j]] ..
     * [worker_offset[j + 1] - 1] the chunks of worker j. */
    const uint32_t *chunk_offset, *holder_worker, *worker_offset, *slot_chunk;
    uint32_t id, epoch; /* the worker itself, in its present life */
    /* Whether it has the chunk's gradient of this round in its sum. */
    bool (*has)(const void *user, uint32_t chunk);
    const void *user;
} secure_signal;

/* Which rule a signal breaks: the first of these. */
typedef enum secure_rule {
    SECURE_RULE_NONE,
    SECURE_RULE_HOLDER,   /* a chunk is taken from a worker that does not hold it */
    SECURE_RULE_AWAY,     /* a chunk is taken from a worker that is not in S */
    SECURE_RULE_IDLE,     /* a member of S is taken no chunk from */
    SECURE_RULE_LIFE,     /* the worker itself is in S with another life */
    SECURE_RULE_MISSING,  /* the worker is said to have a chunk that is not in its sum */
    SECURE_RULE_LEFT_OUT, /* the worker has a chunk in its sum that is taken from another one */
} secure_rule;

/* Takes time as the edges of the plan. A worker that is not in S has nothing to send. */
secure_rule secure_rules_check(const secure_signal *signal);

/*
 * What rides behind the numbers of each stripe of a masked part: words of the ring that count, and
 * words that check. Their masks come from a stream of their own (secure_member.h), so that no count
 * ever shares a mask with a number.
 *
 * The check words are zero before they are masked. Parts that were masked for one kappa add up to
 * zero there, as all masks cancel. If any two neighbours were told different things, at least one
 * pair of masks is left, which is uniformly random to all who don't have its keys: the check words
 * and the count of chunks then all come out right with probability 2^-(w (MASKED_CHECKS + 1)),
 * which is 2^-96 for each stripe in words of 32 bits.
 */

/* What a part counts, and, of a sum of parts, what they count together; mod 2^w. */
typedef struct masked_counts {
    uint64_t chunks;  /* that were summed */
    uint64_t clamped; /* numbers of these, in the stripe, that were clamped or not finite */
} masked_counts;

/* Where each word lies, counted from the first behind the numbers; how many there are. */
enum {
    MASKED_CHUNKS,
    MASKED_CLAMPED,
    MASKED_CHECK, /* the first of so many: */
    MASKED_CHECKS = 2,
    MASKED_COUNTS = MASKED_CHECK + MASKED_CHECKS,
};

/* Writes MASKED_COUNTS words, which are to be masked. */
void masked_counts_put(const ring *of, const masked_counts *counts, void *words);
/* Reads the words of a sum. False: the check words are not zero, so the masks have not cancelled,
 * and *counts means nothing. */
bool masked_counts_get(const ring *of, const void *words, masked_counts *counts);

typedef struct secure_member secure_member;

/*
 * The member `id` (0..workers-1). The key pair is borrowed: it outlives the member. Errors:
 * NO_MEMORY.
 */
int secure_member_create(uint32_t id, uint32_t workers, const agreement *pair,
                         const tarry_allocator *allocator, secure_member **self);
void secure_member_free(secure_member *self); /* NULL is allowed */

/*
 * The public key with which a member's life, `epoch` (1 or more), takes part. A later life replaces
 * what was known; an earlier one changes nothing. Errors: ARGUMENT (no such member or life; another
 * key for the same life; or another key than its own for the member itself).
 */
int secure_member_hear(secure_member *self, uint32_t id, uint32_t epoch,
                       const uint8_t key[AGREEMENT_KEY_BYTES]);

/*
 * Begins the attempt that the context names; context->keys is not read, but taken from what it
 * heard. For the context that it is in already, nothing happens. Of any other one (its own life,
 * round, attempt) have to be beyond all that it began, in this order. Sets kappa.
 *
 * Errors, on which nothing changes but that the former attempt is over where the last are met:
 * ARGUMENT (not for so many workers; its ring does not fit the context's chunks; the member itself
 * is not in S), STATE (not beyond), FORMAT (the context names a life of which it has not heard the
 * key), then NUMERICAL (the other's key gives a secret of zeros), NO_MEMORY.
 */
int secure_member_begin(secure_member *self, const kappa_context *context,
                        uint8_t kappa[KAPPA_BYTES]);

/*
 * words[0..count-1] = from[0..count-1], plus its masks of the attempt: numbers of the vector, of
 * which the first has the coordinate `first` in all of it. So it makes no difference to the mask of
 * a number how the vector is cut into stripes. `from` may be `words` itself; else they do not
 * overlap. A coordinate may never be masked again with other content. Errors: STATE (no attempt was
 * begun), NO_MEMORY, after which the words must not be sent.
 */
int secure_member_mask_numbers(secure_member *self, uint64_t first, const void *from, void *words,
                               size_t count);
/* The same of MASKED_COUNTS words, in place, behind the numbers of the stripe whose first number
 * has the coordinate `first`. No number has a mask from their stream. */
int secure_member_mask_counts(secure_member *self, uint64_t first, void *words);

/* The attempt is over: its mask keys are wiped. It can't be begun again. */
void secure_member_end(secure_member *self);

#endif
