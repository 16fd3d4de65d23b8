/* SPDX-License-Identifier: Apache-2.0 */
/* Which certificates are accepted, beyond what OpenSSL asks of a chain. */
#ifndef TCP_CREDENTIAL_VERIFY_H
#define TCP_CREDENTIAL_VERIFY_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include <tarry/error.h>

#include "runtime/tcp/trust/credential.h"

/*
 * A verify callback of SSL_CTX_set_verify: a certificate is good if OpenSSL says so and its
 * identity fits the other side: workers and viewers connect, the server accepts.
 */
int credential_verify_peer(int good, X509_STORE_CTX *context);

/* The same where workers, and perhaps the server, hand each other sums: a certificate for both
 * sides, which a viewer's is not. */
int credential_verify_member(int good, X509_STORE_CTX *context);

/* Verifies the certificate of a client without a connection, as credential_verify_peer does for the
 * side that accepts. Errors: FORMAT, NO_MEMORY, with why in `text`. */
int credential_verify_client(X509_STORE *store, X509 *certificate,
                             char text[CREDENTIAL_REFUSAL_SIZE]);

/* Why a certificate was not taken, of what SSL_get_verify_result says: static, without a stop. */
const char *credential_verify_text(long result);
/* Whose certificate the peer showed, by its own word; false: nobody's. */
bool credential_claimed_name(const SSL *ssl, char name[CREDENTIAL_NAME_SIZE]);

/*
 * A store that trusts the authority alone and, unless revoked is NULL, refuses the certificates on
 * that list. It takes references of its own. NULL if there is no memory.
 */
X509_STORE *credential_store(X509 *authority, X509_CRL *revoked);

/*
 * Checks a member's own certificate as its peers will. Errors: FORMAT, NO_MEMORY, with a diagnostic
 * that begins with `path`.
 */
int credential_verify_own(X509_STORE *store, X509 *certificate, const char *path,
                          tarry_diagnostic *diagnostic);

/*
 * Checks that the list is the authority's and in force now. Errors: FORMAT, with a diagnostic that
 * begins with `path`.
 */
int credential_verify_list(X509_CRL *revoked, X509 *authority, const char *path,
                           tarry_diagnostic *diagnostic);

#endif
