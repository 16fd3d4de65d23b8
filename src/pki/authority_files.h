/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where in an authority's directory (authority.h). */
#ifndef TCP_AUTHORITY_FILES_H
#define TCP_AUTHORITY_FILES_H

#include <dirent.h>
#include <limits.h>
#include <openssl/x509.h>

#include <tarry/error.h>

#include "pki/authority.h"
#include "pki/issue.h"

/* The authority, read from its directory. */
typedef struct authority_state {
    issue_signer signer;
    X509_CRL *revoked;
    STACK_OF(X509) * issued;
    DIR *lock; /* held until the state is closed: one process at a time changes the directory;
                * NULL: the directory is being made */
} authority_state;

/* Waits for the lock and reads; authority_close in any case. `signing`: with the key. */
int authority_open(const char *directory, bool signing, authority_state *state,
                   tarry_diagnostic *diagnostic);
void authority_close(authority_state *state);

/* "FIRST/SECOND"; FILE if that is too long. */
int authority_path(char path[PATH_MAX], const char *first, const char *second,
                   tarry_diagnostic *diagnostic);
void authority_serial(const X509 *certificate, char serial[AUTHORITY_SERIAL_SIZE]);

/* A new folder of mode 0700. */
int authority_folder(const char *path, tarry_diagnostic *diagnostic);
/* Removes a folder and all that is in it, as far as it can. */
void authority_remove(const char *path);
/* Gets all that was written below the folder onto the disk. */
int authority_sync(const char *path, tarry_diagnostic *diagnostic);

/* Writes issued/SERIAL.pem of a new member and the files of its folder, which it makes. Who dies
 * meanwhile leaves a directory that can still be read. */
int authority_write_member(const char *directory, const char *folder, const authority_state *state,
                           X509 *certificate, EVP_PKEY *key, tarry_diagnostic *diagnostic);

#endif
