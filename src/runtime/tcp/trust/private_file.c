/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "runtime/tcp/trust/credential.h"

enum { BLOCK = 4096 };

int private_path(char path[PATH_MAX], const char *folder, const char *name,
                 tarry_diagnostic *diagnostic)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length >= 0 && length < PATH_MAX ? TARRY_OK
                                            : diagnose_file(diagnostic, folder, ENAMETOOLONG);
}

/* Looks at the open file, not at its name, which might lead to another one by then. */
static int check_state(const char *path, const struct stat *state, bool secret,
                       tarry_diagnostic *diagnostic)
{
    if (!S_ISREG(state->st_mode))
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: not a regular file", path);
    if (state->st_size > PRIVATE_FILE_MOST_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: too large", path);
    if (secret && (state->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: others may read or write this key (chmod 600 it; if they may have "
                        "read it, revoke it)",
                        path);
    return TARRY_OK;
}

static int read_all(int descriptor, BIO *out)
{
    unsigned char block[BLOCK];
    ssize_t got;
    size_t total = 0;
    do {
        got = read(descriptor, block, sizeof(block));
        if (got > 0) {
            total += (size_t)got;
            if (total > PRIVATE_FILE_MOST_BYTES || BIO_write(out, block, (int)got) != got) {
                errno = total > PRIVATE_FILE_MOST_BYTES ? EFBIG : ENOMEM;
                got = -2;
            }
        }
    } while (got > 0 || (got == -1 && errno == EINTR));
    OPENSSL_cleanse(block, sizeof(block));
    return got == 0 ? 0 : -1;
}

int private_file_read(const char *path, bool secret, BIO **out, struct stat *state,
                      tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    struct stat found;
    BIO *content = NULL;
    /* A pipe in the file's place must not make this wait. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return diagnose_file(diagnostic, path, errno);
    if (fstat(descriptor, &found) != 0) {
        error = diagnose_file(diagnostic, path, errno);
        goto close;
    }
    error = check_state(path, &found, secret, diagnostic);
    if (error != TARRY_OK)
        goto close;
    content = BIO_new(BIO_s_mem());
    if (content == NULL) {
        error = diagnose_no_memory(diagnostic, path);
        goto close;
    }
    if (read_all(descriptor, content) != 0) {
        error = diagnose_file(diagnostic, path, errno);
        BIO_free(content);
        goto close;
    }
    *out = content;
    if (state != NULL)
        *state = found;
close:
    close(descriptor);
    return error;
}

static int write_all(int descriptor, BIO *content)
{
    char *bytes;
    long left = BIO_get_mem_data(content, &bytes);
    while (left > 0) {
        ssize_t written = write(descriptor, bytes, (size_t)left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        bytes += written;
        left -= written;
    }
    return 0;
}

int private_file_create(const char *path, BIO *content, tarry_diagnostic *diagnostic)
{
    int descriptor =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor < 0)
        return diagnose_file(diagnostic, path, errno);
    int failed = fchmod(descriptor, S_IRUSR | S_IWUSR) != 0 || write_all(descriptor, content) != 0
                     ? errno
                     : 0;
    if (close(descriptor) != 0 && failed == 0)
        failed = errno;
    if (failed == 0)
        return TARRY_OK;
    unlink(path);
    return diagnose_file(diagnostic, path, failed);
}

/* Once this is done the content of a file is on disk, so that the rename can't get there before it;
 * and that of its folder, so that the rename is. */
static int sync_path(const char *path, int flags)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (descriptor < 0)
        return -1;
    int failed = fsync(descriptor), cause = errno;
    close(descriptor);
    errno = cause;
    return failed;
}

int private_file_sync_folder(const char *path, tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    const char *name = dirname(folder);
    /* Some file systems can't, and a folder that may not be listed can't be opened. */
    return sync_path(name, O_DIRECTORY) == 0 || errno == EINVAL || errno == ENOTSUP ||
                   errno == EACCES
               ? TARRY_OK
               : diagnose_file(diagnostic, name, errno);
}

int private_file_replace(const char *path, BIO *content, tarry_diagnostic *diagnostic)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof(temporary), "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof(temporary))
        return diagnose_file(diagnostic, path, ENAMETOOLONG);
    unlink(temporary); /* what an interrupted run left */
    int error = private_file_create(temporary, content, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (sync_path(temporary, O_NOFOLLOW) == 0 && rename(temporary, path) == 0)
        return private_file_sync_folder(path, diagnostic);
    error = diagnose_file(diagnostic, path, errno);
    unlink(temporary);
    return error;
}

/* ---- pem ---- */

/* A key with a pass phrase is an error, not a question at the terminal. */
static int no_pass_phrase(char *buffer, int size, int writing, void *user)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)user;
    return -1;
}

/* OpenSSL's own word for a file that is something else ("unsupported") says too little. */
static int diagnose_content(tarry_diagnostic *diagnostic, const char *path, const char *wanted)
{
    bool no_memory = ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
    ERR_clear_error();
    return no_memory ? diagnose_no_memory(diagnostic, path)
                     : diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s", path, wanted);
}

int pem_read_certificate(const char *path, X509 **out, tarry_diagnostic *diagnostic)
{
    BIO *content;
    int error = private_file_read(path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    ERR_clear_error();
    X509 *certificate = PEM_read_bio_X509(content, NULL, no_pass_phrase, NULL);
    BIO_free(content);
    if (certificate == NULL)
        return diagnose_content(diagnostic, path, "no certificate in PEM");
    *out = certificate;
    return TARRY_OK;
}

int pem_read_key(const char *path, EVP_PKEY **out, tarry_diagnostic *diagnostic)
{
    BIO *content;
    int error = private_file_read(path, true, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    ERR_clear_error();
    EVP_PKEY *key = PEM_read_bio_PrivateKey(content, NULL, no_pass_phrase, NULL);
    BIO_free(content);
    if (key == NULL)
        return diagnose_content(diagnostic, path,
                                "no private key in PEM, or one with a pass phrase");
    *out = key;
    return TARRY_OK;
}

int pem_read_list(const char *path, X509_CRL **out, struct stat *state,
                  tarry_diagnostic *diagnostic)
{
    BIO *content;
    struct stat found;
    int error = private_file_read(path, false, &content, &found, diagnostic);
    if (error != TARRY_OK)
        return error;
    ERR_clear_error();
    X509_CRL *list = PEM_read_bio_X509_CRL(content, NULL, no_pass_phrase, NULL);
    BIO_free(content);
    if (list == NULL)
        return diagnose_content(diagnostic, path, "no revocation list in PEM");
    *out = list;
    if (state != NULL)
        *state = found;
    return TARRY_OK;
}
