/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates, keys and revocation lists as PEM files. The caller owns what is read. Errors:
 * FILE, FORMAT, NO_MEMORY, with a diagnostic that begins with the path.
 */
#ifndef TCP_PEM_H
#define TCP_PEM_H

#include <openssl/x509.h>
#include <sys/stat.h>

#include <tarry/error.h>

int pem_read_certificate(const char *path, X509 **out, tarry_diagnostic *diagnostic);
/* Refuses a file that others may read or write, and a key with a pass phrase. */
int pem_read_key(const char *path, EVP_PKEY **out, tarry_diagnostic *diagnostic);
/* *state, which may be NULL, is that of the file. */
int pem_read_list(const char *path, X509_CRL **out, struct stat *state,
                  tarry_diagnostic *diagnostic);

/* New files of mode 0600; one that exists is an error. */
int pem_create_certificate(const char *path, X509 *certificate, tarry_diagnostic *diagnostic);
int pem_create_key(const char *path, EVP_PKEY *key, tarry_diagnostic *diagnostic);
int pem_create_list(const char *path, X509_CRL *list, tarry_diagnostic *diagnostic);
/* In place of the file that may be there, in one step (private_file_replace). */
int pem_replace_certificate(const char *path, X509 *certificate, tarry_diagnostic *diagnostic);
int pem_replace_list(const char *path, X509_CRL *list, tarry_diagnostic *diagnostic);

#endif
