/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member of a cluster proves itself with, and by what it knows the others: TLS 1.3 only,
 * both sides with certificates of the cluster's own authority and of no other. No session is ever
 * resumed, so every connection asks the list of revoked certificates.
 *
 * A credentials directory holds ca.pem (the authority), cert.pem and key.pem (this member) and
 * revoked.pem (the authority's revocation list; may be missing).
 */
#ifndef TCP_CREDENTIAL_H
#define TCP_CREDENTIAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "runtime/tcp/trust/identity.h"

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
 * owner is; that the owner has the key is for key_proof.h to say. Errors: FORMAT, with why in
 * `text`; NO_MEMORY.
 */
int credential_verify_passed_on(const credential *self, const uint8_t *der, size_t size, X509 **out,
                                char text[CREDENTIAL_REFUSAL_SIZE]);

/*
 * The same for a connection between two members that hand each other sums, `accepting` or
 * connecting: the peer must show a worker's or the server's certificate for both sides that is not
 * revoked. NULL if there is no memory, or the own one is not for both sides.
 */
SSL *credential_open_between(const credential *self, bool accepting);
/* Whether the own certificate is for both sides of a connection. Those of before workers talked to
 * each other are for one. Errors: FORMAT, with a diagnostic that names the file and says what to
 * do. */
int credential_check_between(const credential *self, tarry_diagnostic *diagnostic);

enum { CREDENTIAL_FINGERPRINT_BYTES = 32 };
/* SHA-256 of a certificate's DER. Zeros if there is no memory. */
void credential_fingerprint(const X509 *certificate,
                            uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES]);
void credential_own_fingerprint(const credential *self,
                                uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES]);

/* The own certificate, DER. Errors: FORMAT (it has more than `room` bytes). */
int credential_own_der(const credential *self, uint8_t *der, size_t room, size_t *size);
/* The own private key, borrowed: for key_proof.c alone. */
EVP_PKEY *credential_key(const credential *self);

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

#endif
