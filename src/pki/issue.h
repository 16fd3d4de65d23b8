/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, certificates and revocation lists of a cluster, made in memory: EC P-256 throughout, signed
 * with SHA-256, serial numbers of 16 random bytes (RFC 5280). Times are seconds since 1970; what is
 * made is valid from an hour before `now`, so that clocks need not agree to the second.
 */
#ifndef TCP_ISSUE_H
#define TCP_ISSUE_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

#include "runtime/tcp/trust/identity.h"

enum {
    ISSUE_AUTHORITY_DAYS = 3653, /* also of the revocation list */
    ISSUE_MEMBER_DAYS = 731,
    ISSUE_HOSTS = 32,
    ISSUE_HOST_SIZE = 254, /* bytes of a host's name, with the NUL */
};

/* An authority, as it signs. Both belong to whoever filled it; issue_signer_clear frees them. */
typedef struct issue_signer {
    X509 *certificate;
    EVP_PKEY *key;
} issue_signer;

void issue_signer_clear(issue_signer *signer);

/* All of these errors: SYSTEM (no randomness), NO_MEMORY, with a diagnostic. The caller owns what
 * is made. */

int issue_key(EVP_PKEY **out, tarry_diagnostic *diagnostic);
int issue_authority(int64_t now, issue_signer *out, tarry_diagnostic *diagnostic);

/*
 * The certificate of a member with that key. hosts[0..count-1], count <= ISSUE_HOSTS: names and IP
 * addresses of the server's machine, that go in beside CREDENTIAL_SERVER_NAME; the server's only.
 */
int issue_certificate(const issue_signer *signer, EVP_PKEY *key, credential_identity identity,
                      const char *const *hosts, size_t count, int64_t now, X509 **out,
                      tarry_diagnostic *diagnostic);

/*
 * Another certificate for the member, hosts and key of `before`, whose key stays as it is. Errors:
 * FORMAT, too (`before` is no member's).
 */
int issue_renewal(const issue_signer *signer, X509 *before, int64_t now, X509 **out,
                  tarry_diagnostic *diagnostic);

/*
 * The revocation list that follows `previous` (NULL: the first one) and has
 * certificates[0..count-1] too, which are not on that list.
 */
int issue_list(const issue_signer *signer, const X509_CRL *previous, X509 *const *certificates,
               size_t count, int64_t now, X509_CRL **out, tarry_diagnostic *diagnostic);

/* Checks a host's name (letters, digits, '-' and '.') or IP address. Errors: ARGUMENT, with a
 * diagnostic that begins with the host. */
int issue_check_host(const char *host, tarry_diagnostic *diagnostic);

#endif
