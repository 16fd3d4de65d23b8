/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of keys and certificates: nobody but their owner may read or write them. */
#ifndef RUNTIME_PRIVATE_FILE_H
#define RUNTIME_PRIVATE_FILE_H

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <tarry/error.h>

enum { PRIVATE_FILE_MOST_BYTES = 16 << 20 };

/* "FOLDER/NAME". Errors: FILE (that is too long), with a diagnostic that begins with the folder. */
int private_path(char path[PATH_MAX], const char *folder, const char *name,
                 tarry_diagnostic *diagnostic);

/*
 * Reads a whole file. A secret one is refused if anybody but its owner may read or write it. The
 * caller owns *out, whose memory is wiped when it is freed, and gets the file's state in *state
 * unless that is NULL. Errors: FILE, NO_MEMORY, with a diagnostic that begins with the path.
 */
int private_file_read(const char *path, bool secret, BIO **out, struct stat *state,
                      tarry_diagnostic *diagnostic);

typedef int private_file_writer(const char *path, BIO *content, tarry_diagnostic *diagnostic);

/*
 * Writes a new file of mode 0600, whatever the umask; one that exists is not touched. What a
 * failure leaves is removed. Errors: FILE, with a diagnostic that begins with the path.
 */
int private_file_create(const char *path, BIO *content, tarry_diagnostic *diagnostic);

/*
 * The same, but takes the place of a file of that name, in one step that a crash or a reader never
 * sees half done. Only one process at a time may do so. File and folder are synced: an error may
 * leave either content there.
 */
int private_file_replace(const char *path, BIO *content, tarry_diagnostic *diagnostic);

/* Syncs the folder that holds a file or another folder. A file system that can't do this is not an
 * error. Errors: FILE. */
int private_file_sync_folder(const char *path, tarry_diagnostic *diagnostic);

/*
 * Certificates, keys and revocation lists as PEM files. The caller owns what is read. Errors:
 * FILE, FORMAT, NO_MEMORY, with a diagnostic that begins with the path.
 */

int pem_read_certificate(const char *path, X509 **out, tarry_diagnostic *diagnostic);
/* Refuses a file that others may read or write, and a key with a pass phrase. */
int pem_read_key(const char *path, EVP_PKEY **out, tarry_diagnostic *diagnostic);
/* *state, which may be NULL, is that of the file. */
int pem_read_list(const char *path, X509_CRL **out, struct stat *state,
                  tarry_diagnostic *diagnostic);

#endif
