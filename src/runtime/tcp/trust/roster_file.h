/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers that the authority lets take part in secure sums, each by the fingerprint of its one
 * certificate: a file in every member's folder, so that nobody is added to a sum by whoever runs
 * the server. Text:
 *
 *     tarry roster 1
 *     authority FINGERPRINT               of ca.pem
 *     number N                            1 and up; a list that differs has a higher one
 *     worker-ID FINGERPRINT               by id, ascending
 *     ...
 *     signature HEXADECIMAL               the authority's (DER), of all bytes before this line
 *
 * Fingerprints are SHA-256, in lower-case hexadecimal digits; each line ends with a newline. What
 * is signed begins with its own name, which no certificate and no revocation list does.
 */
#ifndef TCP_ROSTER_FILE_H
#define TCP_ROSTER_FILE_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "runtime/tcp/trust/credential.h"

#define ROSTER_FILE_NAME "roster.txt"

typedef struct roster_entry {
    uint32_t worker;
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
} roster_entry;

typedef struct roster_file {
    tarry_allocator allocator;
    uint64_t number;
    uint8_t digest[CREDENTIAL_FINGERPRINT_BYTES]; /* SHA-256 of what is signed: rho */
    size_t count;
    roster_entry *entries; /* by worker, ascending */
} roster_file;

/*
 * Reads a roster, in which any bytes may be, and verifies it: the authority's, in the one form
 * there is. The caller owns *out. Errors: FORMAT, NO_MEMORY, with a diagnostic.
 */
int roster_file_decode(const void *bytes, size_t size, X509 *authority,
                       const tarry_allocator *allocator, roster_file **out,
                       tarry_diagnostic *diagnostic);
/* The same of a file of that path. Errors: FILE, too; the diagnostic begins with the path. */
int roster_file_read(const char *path, X509 *authority, const tarry_allocator *allocator,
                     roster_file **out, tarry_diagnostic *diagnostic);
void roster_file_free(roster_file *self); /* NULL is allowed */

/* The fingerprint of that worker's certificate; NULL: it may not take part. */
const uint8_t *roster_file_find(const roster_file *self, uint32_t worker);

/*
 * Writes a roster, which the authority's key signs; entries[0..count-1] by worker, ascending, no
 * worker twice. *bytes is the caller's, by memory_release(NULL, ..). Errors: SYSTEM, NO_MEMORY,
 * with a diagnostic.
 */
int roster_file_encode(const roster_entry *entries, size_t count, uint64_t number, X509 *authority,
                       EVP_PKEY *key, char **bytes, size_t *size, tarry_diagnostic *diagnostic);

/* The roster of the folder that a credential is of. Errors: as roster_file_read. */
int credential_roster(const credential *self, const tarry_allocator *allocator, roster_file **out,
                      tarry_diagnostic *diagnostic);

#endif
