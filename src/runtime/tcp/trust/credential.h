/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member of a cluster proves itself with, and by what it knows the others: TLS 1.3 only,
 * both sides with certificates of the cluster's own authority and of no other. No session is ever
 * resumed, so every connection asks the list of revoked certificates.
 *
 * A credentials directory holds ca.pem (the authority), cert.pem and key.pem (this member) and
 * revoked.pem (the authority's revocation list; may be missing).
 */
#ifndef RUNTIME_CREDENTIAL_H
#define RUNTIME_CREDENTIAL_H

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

/*
 * Who a certificate says its owner is. The name is the certificate's only common name: "server",
 * "worker-3" (the worker with id 3), "worker" (a worker that may take any id) or "viewer".
 */

typedef enum credential_role {
    CREDENTIAL_SERVER,
    CREDENTIAL_WORKER,
    CREDENTIAL_VIEWER,
} credential_role;

#define CREDENTIAL_ANY_ID UINT32_MAX
#define CREDENTIAL_IDS 1000000 /* ids are below this, as the workers of a plan are */
#define CREDENTIAL_NAME_SIZE 20

typedef struct credential_identity {
    credential_role role;
    uint32_t worker; /* the id that a worker is bound to, or CREDENTIAL_ANY_ID; else 0 */
} credential_identity;

/* The identity of that name. Errors: FORMAT, for any other text. */
int identity_parse(const char *name, credential_identity *out);
void identity_name(credential_identity identity, char name[CREDENTIAL_NAME_SIZE]);

/*
 * The identity that a certificate states: one common name, and the extended key usage that fits the
 * role (a viewer's clientAuth, all others' both). Does not verify it. Errors: FORMAT.
 */
int identity_of_certificate(X509 *certificate, credential_identity *out);

/* The name that workers look for in the server's certificate, wherever it runs. */
#define CREDENTIAL_SERVER_NAME "tarry-server"
#define CREDENTIAL_REFUSAL_SIZE 160

typedef struct credential credential;

/*
 * Loads a directory and checks it: the key belongs to the certificate and is readable by its owner
 * alone; the certificate is the authority's, valid now and not revoked; the revocation list is
 * signed by the authority and has not expired. The caller owns *out. Errors: FILE (missing,
 * unreadable, readable by others), FORMAT (anything wrong inside), NO_MEMORY, with a diagnostic
 * that names the file and never says what is in a key.
 */
int credential_load(const char *directory, const tarry_allocator *allocator, credential **out,
                    tarry_diagnostic *diagnostic);
/* Connections made with it live on. NULL is allowed. */
void credential_free(credential *self);

/* Who the owner is. */
credential_identity credential_own(const credential *self);

/*
 * The TLS of a new connection, set to accept (a server's credential) or to connect (all others),
 * without a socket; the caller's, by SSL_free. NULL if there is no memory. The peer must show a
 * certificate of the authority that fits the other side: a worker's or viewer's that is not
 * revoked, or the server's with its name of the above. Writes may be partial and go on from another
 * address; buffers are given back while nothing is in them.
 */
SSL *credential_open(const credential *self);

/*
 * Verifies a certificate (DER) that somebody passed on as a server verifies those of its own
 * connections: its chain, dates and usage, and that it is not revoked. *out is who it says its
 * owner is; that the owner has the key is for a proof to say. Errors: FORMAT, with why in
 * `text`; NO_MEMORY.
 */
int credential_verify_passed_on(const credential *self, const uint8_t *der, size_t size, X509 **out,
                                char text[CREDENTIAL_REFUSAL_SIZE]);

/*
 * The same for a connection between two members that hand each other sums, `accepting` or
 * connecting: the peer must show a worker's or the server's certificate that is not revoked. NULL
 * if there is no memory, or the own one is a viewer's.
 */
SSL *credential_open_between(const credential *self, bool accepting);
/* Errors: FORMAT if the own certificate is a viewer's, with a diagnostic that names the file. */
int credential_check_between(const credential *self, tarry_diagnostic *diagnostic);

/* Signs bytes by SHA-256 and the key; *size is how much room there is, and then the length. False:
 * OpenSSL's error queue says why. */
bool bytes_sign(EVP_PKEY *key, const void *bytes, size_t count, uint8_t *signature, size_t *size);
/* True if the key of this certificate has signed the bytes so. */
bool bytes_are_signed(const X509 *owner, const void *bytes, size_t count, const uint8_t *signature,
                      size_t size);

enum { CREDENTIAL_FINGERPRINT_BYTES = 32 };
/* SHA-256 of a certificate's DER. Zeros if there is no memory. */
void credential_fingerprint(const X509 *certificate,
                            uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES]);
void credential_own_fingerprint(const credential *self,
                                uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES]);

/* The own certificate, DER. Errors: FORMAT (it has more than `room` bytes). */
int credential_own_der(const credential *self, uint8_t *der, size_t room, size_t *size);

/*
 * Reads revoked.pem again if it has changed since; *changed says whether it was. Connections that
 * begin from then on are held to the new list; ask credential_is_revoked about the older ones. On
 * an error the last good list stays (until it expires: then all peers are refused). Call it from
 * the thread that uses the connections, now and then. Errors: as credential_load.
 */
int credential_refresh_revoked(credential *self, bool *changed, tarry_diagnostic *diagnostic);
bool credential_is_revoked(const credential *self, X509 *certificate);

/* Who the peer of a finished handshake is. Errors: STATE if none is verified. */
int credential_peer(const SSL *ssl, credential_identity *out);

/*
 * Why the handshake, or the reading after it, failed, for a log line: "certificate of worker-3:
 * certificate revoked", "unsupported protocol", "refused by the peer: ...". The name in it is what
 * the peer claims. Call it in the thread and right after the call that failed, which was made with
 * an empty error queue (ERR_clear_error); empties the queue. In TLS 1.3 the connecting side learns
 * only at its first read that it was refused.
 */
void credential_refusal(const SSL *ssl, char text[CREDENTIAL_REFUSAL_SIZE]);

/* Which certificates are accepted, beyond what OpenSSL asks of a chain. */

/* Why a certificate was not taken, of what SSL_get_verify_result says: static, without a stop. */
const char *credential_verify_text(long result);
/* Whose certificate the peer showed, by its own word; false: nobody's. */
bool credential_claimed_name(const SSL *ssl, char name[CREDENTIAL_NAME_SIZE]);

/*
 * By what workers know each other's keys of secure sums, which the server hands on: each is signed
 * with the key of the worker's certificate. The label makes a signature one of nothing else: TLS
 * signs bytes that begin in another way, certificates and lists do, too.
 */

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

/* OpenSSL's errors as Tarry's. */

/*
 * Says "WHAT: REASON" with the reason of the first error in this thread's queue, and empties the
 * queue. Gives back `error`, or NO_MEMORY if that is the reason. The texts are OpenSSL's own and
 * hold nothing of the data.
 */
int diagnose_openssl(tarry_diagnostic *diagnostic, int error, const char *what);

#endif
