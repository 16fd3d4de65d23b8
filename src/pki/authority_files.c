/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/authority_files.h"

#include <errno.h>
#include <ftw.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "runtime/tcp/trust/pem.h"

enum { FOLDER_MODE = 0700, OPEN_FOLDERS = 8 };

static int diagnose_file(tarry_diagnostic *diagnostic, const char *path)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(errno));
}

int authority_path(char path[PATH_MAX], const char *first, const char *second,
                   tarry_diagnostic *diagnostic)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", first, second);
    if (length >= 0 && length < PATH_MAX)
        return TARRY_OK;
    errno = ENAMETOOLONG;
    return diagnose_file(diagnostic, first);
}

void authority_serial(const X509 *certificate, char serial[AUTHORITY_SERIAL_SIZE])
{
    /* Our own are positive and of 16 bytes; of a longer one the first bytes tell. */
    const ASN1_INTEGER *number = X509_get0_serialNumber(certificate);
    const unsigned char *bytes = ASN1_STRING_get0_data(number);
    int length = ASN1_STRING_length(number);
    size_t most = (AUTHORITY_SERIAL_SIZE - 1) / 2;
    hex_put(serial, bytes, (size_t)length < most ? (size_t)length : most);
}

int authority_folder(const char *path, tarry_diagnostic *diagnostic)
{
    if (mkdir(path, FOLDER_MODE) != 0 || chmod(path, FOLDER_MODE) != 0)
        return diagnose_file(diagnostic, path);
    return TARRY_OK;
}

static int remove_entry(const char *path, const struct stat *state, int kind, struct FTW *where)
{
    (void)state;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void authority_remove(const char *path)
{
    nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

int authority_sync(const char *path, tarry_diagnostic *diagnostic)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return diagnose_file(diagnostic, path);
    int error = syncfs(dirfd(folder)) == 0 ? TARRY_OK : diagnose_file(diagnostic, path);
    closedir(folder);
    return error;
}

static bool is_certificate_file(const char *name)
{
    size_t length = strlen(name);
    return name[0] != '.' && length > 4 && strcmp(name + length - 4, ".pem") == 0;
}

static int read_issued(const char *directory, STACK_OF(X509) * issued, tarry_diagnostic *diagnostic)
{
    char folder_path[PATH_MAX], path[PATH_MAX];
    int error = authority_path(folder_path, directory, "issued", diagnostic);
    if (error != TARRY_OK)
        return error;
    DIR *folder = opendir(folder_path);
    if (folder == NULL)
        return diagnose_file(diagnostic, folder_path);
    const struct dirent *entry;
    while (error == TARRY_OK && (entry = readdir(folder)) != NULL) {
        X509 *certificate;
        if (!is_certificate_file(entry->d_name))
            continue;
        error = authority_path(path, folder_path, entry->d_name, diagnostic);
        if (error == TARRY_OK)
            error = pem_read_certificate(path, &certificate, diagnostic);
        if (error == TARRY_OK && sk_X509_push(issued, certificate) == 0) {
            X509_free(certificate);
            error = diagnose_no_memory(diagnostic, folder_path);
        }
    }
    closedir(folder);
    return error;
}

static int read_signer(const char *directory, bool signing, issue_signer *signer,
                       tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = authority_path(path, directory, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_read_certificate(path, &signer->certificate, diagnostic);
    if (error != TARRY_OK || !signing)
        return error;
    error = authority_path(path, directory, "ca-key.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_read_key(path, &signer->key, diagnostic);
    if (error == TARRY_OK && X509_check_private_key(signer->certificate, signer->key) != 1) {
        ERR_clear_error();
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the key of ca.pem", path);
    }
    return error;
}

int authority_open(const char *directory, bool signing, authority_state *state,
                   tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    *state = (authority_state){0};
    int error = authority_path(path, directory, "revoked.pem", diagnostic);
    if (error != TARRY_OK)
        return error;
    state->lock = opendir(directory);
    if (state->lock == NULL || flock(dirfd(state->lock), LOCK_EX) != 0)
        return diagnose_file(diagnostic, directory);
    state->issued = sk_X509_new_null();
    if (state->issued == NULL)
        return diagnose_no_memory(diagnostic, directory);
    error = read_signer(directory, signing, &state->signer, diagnostic);
    if (error == TARRY_OK)
        error = pem_read_list(path, &state->revoked, NULL, diagnostic);
    if (error == TARRY_OK)
        error = read_issued(directory, state->issued, diagnostic);
    return error;
}

void authority_close(authority_state *state)
{
    issue_signer_clear(&state->signer);
    X509_CRL_free(state->revoked);
    sk_X509_pop_free(state->issued, X509_free);
    if (state->lock != NULL)
        closedir(state->lock);
}

/* One unreadable certificate would keep all others from being revoked: each comes to its name in
 * one step. A directory that is being made has no readers, and is synced as a whole. */
static int record_issued(const char *directory, const authority_state *state, X509 *certificate,
                         tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX], name[sizeof("issued/") + AUTHORITY_SERIAL_SIZE + sizeof(".pem")];
    char serial[AUTHORITY_SERIAL_SIZE];
    authority_serial(certificate, serial);
    snprintf(name, sizeof(name), "issued/%s.pem", serial);
    int error = authority_path(path, directory, name, diagnostic);
    if (error != TARRY_OK)
        return error;
    return state->lock != NULL ? pem_replace_certificate(path, certificate, diagnostic)
                               : pem_create_certificate(path, certificate, diagnostic);
}

int authority_write_member(const char *directory, const char *folder, const authority_state *state,
                           X509 *certificate, EVP_PKEY *key, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    /* First of all, so that whatever key gets out can be revoked. */
    int error = record_issued(directory, state, certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_folder(folder, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_certificate(path, state->signer.certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "cert.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_certificate(path, certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "key.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_key(path, key, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "revoked.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_list(path, state->revoked, diagnostic);
    return error;
}
