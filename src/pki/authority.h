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
#ifndef TCP_AUTHORITY_H
#define TCP_AUTHORITY_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "runtime/tcp/trust/roster_file.h"

/* Names and addresses that go into the certificate of a server (issue.h). */
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

/* A certificate that authority_renew made: who copies what. */
typedef struct authority_renewed {
    credential_identity identity;
    char path[PATH_MAX]; /* it takes the place of cert.pem in the member's folder, wherever that is;
                            this is cert.pem of the folder in the directory, if that is there */
} authority_renewed;

/*
 * Makes another certificate for each that is good but for one side of a connection alone, as those
 * were that were made before workers talked to each other. Keys stay as they are, and so do the
 * certificates of before, until they expire: members can change over one after the other, at any
 * time. (*out)[0..*count-1], freed by memory_release; none if there is nothing to do.
 */
int authority_renew(const char *directory, int64_t now, const tarry_allocator *allocator,
                    authority_renewed **out, size_t *count, tarry_diagnostic *diagnostic);

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
    bool one_sided; /* authority_renew makes another one, or has */
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
} authority_member;

/* Every certificate that was made, by role and id (a worker of any id is the last worker), then
 * expiry; (*out)[0..*count-1], freed by memory_release. */
int authority_list(const char *directory, const tarry_allocator *allocator, authority_member **out,
                   size_t *count, tarry_diagnostic *diagnostic);

#endif
