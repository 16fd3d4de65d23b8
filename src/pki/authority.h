/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster's authority as a directory, and the folder that each member gets:
 *
 *     ca.pem ca-key.pem revoked.pem       the authority; ca-key.pem never leaves this machine
 *     roster.txt                          who may take part in secure sums (roster_file.h)
 *     issued/SERIAL.pem                   every certificate that was ever made
 *     server/ worker-0/ .. worker/ viewer/ ..    a credentials directory each (credential.h)
 *
 * All files have mode 0600 and all folders 0700. Times are seconds since 1970. Errors of all:
 * FILE, FORMAT (what a file says), SYSTEM, NO_MEMORY, with a diagnostic that begins with the path
 * or the member's name.
 */
#ifndef PKI_AUTHORITY_H
#define PKI_AUTHORITY_H

#include <dirent.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/private_file.h"
#include "runtime/tcp/trust/roster_file.h"

/* Names and addresses that go into the certificate of a server. */
typedef struct authority_hosts {
    const char *const *names;
    size_t count;
} authority_hosts;

/*
 * Makes a new cluster with the members server, worker-0 .. worker-(workers-1), worker and viewer.
 * The directory must be missing or empty; it appears as a whole, when all is done and on disk, or
 * not at all. Once *stop is true (another thread may set it; NULL: never) it gives up, and leaves
 * nothing: INTERRUPTED.
 */
int authority_init(const char *directory, uint32_t workers, authority_hosts hosts, int64_t now,
                   const atomic_bool *stop, tarry_diagnostic *diagnostic);

/*
 * Makes a member's folder. One that exists is replaced if every certificate of that name is
 * revoked, else STATE. hosts: of a server only.
 */
int authority_add(const char *directory, credential_identity identity, authority_hosts hosts,
                  int64_t now, tarry_diagnostic *diagnostic);

/* Certificates of one name: */
typedef struct authority_tally {
    size_t revoked; /* put on the list by this call */
    size_t good;    /* still good */
} authority_tally;

/*
 * Puts certificates of that name on the revocation list, in the directory and in server/ if that is
 * there: all of them (serial is NULL), or the one with that serial number, hexadecimal in either
 * case. STATE if no such certificate was made, or all are on the list.
 */
int authority_revoke(const char *directory, credential_identity identity, const char *serial,
                     int64_t now, authority_tally *out, tarry_diagnostic *diagnostic);

/* What authority_roster made. */
typedef struct authority_rostered {
    uint64_t number;
    size_t workers;
    bool same; /* as the roster of before, whose number it has */
} authority_rostered;

/*
 * Makes the roster of secure sums: the workers with ids of their own that have a certificate which
 * is neither revoked nor expired, each with the last of those. It is written into the directory,
 * and into the folders of server and workers that are there. A list that differs from the one of
 * before has the next number. STATE: there is no such worker.
 */
int authority_roster(const char *directory, int64_t now, authority_rostered *out,
                     tarry_diagnostic *diagnostic);
/* The directory's roster; the caller owns *out, which is NULL if there is none. */
int authority_read_roster(const char *directory, roster_file **out, tarry_diagnostic *diagnostic);

#define AUTHORITY_SERIAL_SIZE 41 /* hexadecimal digits, with the NUL */

typedef struct authority_member {
    credential_identity identity;
    char serial[AUTHORITY_SERIAL_SIZE];
    int64_t expiry;
    bool revoked;
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
} authority_member;

/* Every certificate that was made, by role and id (a worker of any id is the last worker), then
 * expiry; (*out)[0..*count-1], freed by memory_release. */
int authority_list(const char *directory, const tarry_allocator *allocator, authority_member **out,
                   size_t *count, tarry_diagnostic *diagnostic);

/*
 * Keys, certificates and revocation lists of a cluster, made in memory: EC P-256 throughout, signed
 * with SHA-256, serial numbers of 16 random bytes (RFC 5280). Times are seconds since 1970; what is
 * made is valid from an hour before `now`, so that clocks need not agree to the second.
 */

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

/* Checks a host's name (letters, digits, '-' and '.') or IP address. Errors: ARGUMENT, with a
 * diagnostic that begins with the host. */
int issue_check_host(const char *host, tarry_diagnostic *diagnostic);

/* What lies where in an authority's directory (authority.h). */

void authority_serial(const X509 *certificate, char serial[AUTHORITY_SERIAL_SIZE]);
/* Removes a folder and all that is in it, as far as it can. */
void authority_remove(const char *path);
#endif
