/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that two members agree on over a server that reads along: X25519 (RFC 7748), and HKDF with
 * SHA-256 (RFC 5869). One key pair per process life; its private half never leaves this object, and
 * is wiped with it.
 */
#ifndef PRIVACY_SECURE_AGREEMENT_H
#define PRIVACY_SECURE_AGREEMENT_H

#include <stdint.h>

#include "privacy/secure/masks.h"

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
 * of the vector, one for what is counted about them (masked_counts.h). */
typedef struct agreement_mask_keys {
    uint8_t numbers[MASK_KEY_BYTES], counts[MASK_KEY_BYTES];
} agreement_mask_keys;

/* The keys of the masks between two members, lower.id < higher.id, in the attempt that kappa names:
 * the first and the second 32 bytes of HKDF. Errors: NO_MEMORY. */
int agreement_make_mask_keys(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                             agreement_member lower, agreement_member higher,
                             const uint8_t kappa[32], agreement_mask_keys *keys);

#endif
