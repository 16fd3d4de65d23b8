/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what workers know each other's keys of secure sums, which the server hands on: each is signed
 * with the key of the worker's certificate. The label makes a signature one of nothing else: TLS
 * signs bytes that begin in another way, certificates and lists do, too.
 */
#ifndef TCP_KEY_PROOF_H
#define TCP_KEY_PROOF_H

#include "runtime/tcp/trust/credential.h"

enum {
    KEY_PROOF_KEY_BYTES = 32, /* of a public key (X25519) */
    KEY_PROOF_ID_BYTES = 16,
    KEY_PROOF_MOST = 512, /* longest signature */
};

/* What is signed: this is the key of this worker, in this life of its process, for this job. */
typedef struct key_claim {
    uint8_t job[KEY_PROOF_ID_BYTES];
    uint32_t worker;
    uint8_t instance[KEY_PROOF_ID_BYTES];
    uint64_t numerics;
    uint8_t key[KEY_PROOF_KEY_BYTES];
} key_claim;

/* Signs the claim with the own key. Errors: SYSTEM. */
int key_proof_sign(const credential *self, const key_claim *claim,
                   uint8_t signature[KEY_PROOF_MOST], size_t *size);
/*
 * Verifies that the owner of the certificate (DER) says so, and that the authority made that for
 * this worker and no other: chain, dates, usage, not revoked. *fingerprint is that of the
 * certificate. Errors: FORMAT, with why in `text`; NO_MEMORY.
 */
int key_proof_verify(const credential *self, const uint8_t *certificate, size_t certificate_size,
                     const uint8_t *signature, size_t signature_size, const key_claim *claim,
                     uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES],
                     char text[CREDENTIAL_REFUSAL_SIZE]);

#endif
