/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/diagnostic.h"
#include "runtime/tcp/trust/openssl_error.h"
#include "runtime/tcp/trust/private_file.h"

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

/* Writes what was encoded into `content`, which it frees. */
static int write_content(const char *path, BIO *content, int encoded,
                         int (*write)(const char *, BIO *, tarry_diagnostic *),
                         tarry_diagnostic *diagnostic)
{
    int error = encoded == 1 ? write(path, content, diagnostic)
                             : diagnose_openssl(diagnostic, TARRY_ERROR_NO_MEMORY, path);
    BIO_free(content);
    return error;
}

static int write_certificate(const char *path, X509 *certificate,
                             int (*write)(const char *, BIO *, tarry_diagnostic *),
                             tarry_diagnostic *diagnostic)
{
    BIO *content = BIO_new(BIO_s_mem());
    int encoded = content != NULL ? PEM_write_bio_X509(content, certificate) : 0;
    return write_content(path, content, encoded, write, diagnostic);
}

int pem_create_certificate(const char *path, X509 *certificate, tarry_diagnostic *diagnostic)
{
    return write_certificate(path, certificate, private_file_create, diagnostic);
}

int pem_replace_certificate(const char *path, X509 *certificate, tarry_diagnostic *diagnostic)
{
    return write_certificate(path, certificate, private_file_replace, diagnostic);
}

int pem_create_key(const char *path, EVP_PKEY *key, tarry_diagnostic *diagnostic)
{
    BIO *content = BIO_new(BIO_s_mem());
    int encoded =
        content != NULL ? PEM_write_bio_PrivateKey(content, key, NULL, NULL, 0, NULL, NULL) : 0;
    return write_content(path, content, encoded, private_file_create, diagnostic);
}

static int write_list(const char *path, X509_CRL *list,
                      int (*write)(const char *, BIO *, tarry_diagnostic *),
                      tarry_diagnostic *diagnostic)
{
    BIO *content = BIO_new(BIO_s_mem());
    int encoded = content != NULL ? PEM_write_bio_X509_CRL(content, list) : 0;
    return write_content(path, content, encoded, write, diagnostic);
}

int pem_create_list(const char *path, X509_CRL *list, tarry_diagnostic *diagnostic)
{
    return write_list(path, list, private_file_create, diagnostic);
}

int pem_replace_list(const char *path, X509_CRL *list, tarry_diagnostic *diagnostic)
{
    return write_list(path, list, private_file_replace, diagnostic);
}
