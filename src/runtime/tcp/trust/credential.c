/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/credential.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/tcp/trust/credential_verify.h"
#include "runtime/tcp/trust/openssl_error.h"
#include "runtime/tcp/trust/pem.h"
#include "runtime/tcp/trust/roster_file.h"

struct credential {
    tarry_allocator allocator;
    credential_identity own;
    X509 *authority;
    SSL_CTX *context;
    SSL_CTX *between;    /* members; NULL: the certificate is not for that */
    X509_CRL *revoked;   /* NULL if there is no list */
    struct stat list;    /* of revoked.pem when it was read; all zero before */
    char revoked_path[]; /* where revoked.pem is, or would be */
};

/* The files of a directory while they are loaded. */
typedef struct credential_parts {
    char authority_path[PATH_MAX], certificate_path[PATH_MAX], key_path[PATH_MAX];
    X509 *certificate;
    EVP_PKEY *key;
    X509_STORE *store;
} credential_parts;

/* *state is set with *out. */
static int read_list(const credential *self, X509_CRL **out, struct stat *state,
                     tarry_diagnostic *diagnostic)
{
    const char *path = self->revoked_path;
    X509_CRL *revoked;
    struct stat found;
    int error = pem_read_list(path, &revoked, &found, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = credential_verify_list(revoked, self->authority, path, diagnostic);
    if (error != TARRY_OK) {
        X509_CRL_free(revoked);
        return error;
    }
    *out = revoked;
    *state = found;
    return TARRY_OK;
}

static bool processor_has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") != 0;
#else
    return true;
#endif
}

/* Of a peer that is not verified yet; a member's, without a chain, is less than 1 KiB. */
enum { CERTIFICATE_BYTES = 16 << 10 };

/* What both sides do alike. 1 on success, as OpenSSL has it. */
static int harden(SSL_CTX *context, SSL_verify_cb verify)
{
    const char *ciphers =
        processor_has_aes()
            ? "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
            : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_max_cert_list(context, CERTIFICATE_BYTES);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
    SSL_CTX_set_verify_depth(context, 0); /* nothing between a member and the authority */
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_ciphersuites(context, ciphers) == 1;
}

/* What all connections have in common; NULL on failure. */
static SSL_CTX *make_context(const credential_parts *parts, const SSL_METHOD *method,
                             SSL_verify_cb verify)
{
    SSL_CTX *context = SSL_CTX_new(method);
    if (context == NULL)
        return NULL;
    if (harden(context, verify) == 1 && SSL_CTX_use_certificate(context, parts->certificate) == 1 &&
        SSL_CTX_use_PrivateKey(context, parts->key) == 1) {
        SSL_CTX_set1_cert_store(context, parts->store);
        return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

static bool ask_for_server(SSL_CTX *context)
{
    X509_VERIFY_PARAM *wanted = SSL_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                                X509_CHECK_FLAG_NO_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(wanted, CREDENTIAL_SERVER_NAME, 0) == 1;
}

static int make_contexts(credential *self, const credential_parts *parts,
                         tarry_diagnostic *diagnostic)
{
    bool server = self->own.role == CREDENTIAL_SERVER;
    bool between = identity_is_for_both(parts->certificate);
    ERR_clear_error();
    self->context = make_context(parts, server ? TLS_server_method() : TLS_client_method(),
                                 credential_verify_peer);
    if (between)
        self->between = make_context(parts, TLS_method(), credential_verify_member);
    if (self->context == NULL || (between && self->between == NULL) ||
        (!server && !ask_for_server(self->context)))
        return diagnose_openssl(diagnostic, TARRY_ERROR_FORMAT, parts->certificate_path);
    return TARRY_OK;
}

static int join(char path[PATH_MAX], const char *directory, const char *name,
                tarry_diagnostic *diagnostic)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", name, strerror(ENAMETOOLONG));
    return TARRY_OK;
}

static int load_list(credential *self, tarry_diagnostic *diagnostic)
{
    struct stat present;
    if (stat(self->revoked_path, &present) != 0 && errno == ENOENT)
        return TARRY_OK;
    return read_list(self, &self->revoked, &self->list, diagnostic);
}

/* Whoever names the folder of the whole cluster means one of those in it. */
static int check_folder(const char *directory, const char *certificate_path,
                        tarry_diagnostic *diagnostic)
{
    char issued[PATH_MAX];
    int error = join(issued, directory, "issued", diagnostic);
    if (error == TARRY_OK && access(issued, F_OK) == 0 && access(certificate_path, F_OK) != 0)
        error =
            diagnose(diagnostic, TARRY_ERROR_FILE,
                     "%s: holds a whole cluster; name the folder of one member in it", directory);
    return error;
}

static int load_parts(credential *self, const char *directory, credential_parts *parts,
                      tarry_diagnostic *diagnostic)
{
    int error = join(parts->authority_path, directory, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = join(parts->certificate_path, directory, "cert.pem", diagnostic);
    if (error == TARRY_OK)
        error = join(parts->key_path, directory, "key.pem", diagnostic);
    if (error == TARRY_OK)
        error = check_folder(directory, parts->certificate_path, diagnostic);
    if (error == TARRY_OK)
        error = pem_read_certificate(parts->authority_path, &self->authority, diagnostic);
    if (error == TARRY_OK)
        error = pem_read_certificate(parts->certificate_path, &parts->certificate, diagnostic);
    if (error == TARRY_OK)
        error = pem_read_key(parts->key_path, &parts->key, diagnostic);
    if (error == TARRY_OK)
        error = load_list(self, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (X509_check_private_key(parts->certificate, parts->key) != 1) {
        ERR_clear_error();
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the key of cert.pem",
                        parts->key_path);
    }
    parts->store = credential_store(self->authority, self->revoked);
    if (parts->store == NULL)
        return diagnose_openssl(diagnostic, TARRY_ERROR_NO_MEMORY, parts->authority_path);
    return credential_verify_own(parts->store, parts->certificate, parts->certificate_path,
                                 diagnostic);
}

int credential_load(const char *directory, const tarry_allocator *allocator, credential **out,
                    tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = join(path, directory, "revoked.pem", diagnostic);
    if (error != TARRY_OK)
        return error;
    credential_parts *found = memory_allocate(allocator, 1, sizeof(*found));
    credential *made = memory_allocate(allocator, 1, sizeof(*made) + strlen(path) + 1);
    if (found == NULL || made == NULL) {
        memory_release(allocator, made);
        error = diagnose_no_memory(diagnostic, directory);
        goto release;
    }
    made->allocator = memory_allocator(allocator);
    strcpy(made->revoked_path, path);
    error = load_parts(made, directory, found, diagnostic);
    if (error == TARRY_OK)
        error = identity_of_certificate(found->certificate, &made->own);
    if (error == TARRY_OK)
        error = make_contexts(made, found, diagnostic);
    X509_free(found->certificate);
    EVP_PKEY_free(found->key);
    X509_STORE_free(found->store);
    if (error == TARRY_OK)
        *out = made;
    else
        credential_free(made);
release:
    memory_release(allocator, found);
    return error;
}

void credential_free(credential *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    SSL_CTX_free(self->context);
    SSL_CTX_free(self->between);
    X509_free(self->authority);
    X509_CRL_free(self->revoked);
    memory_release(&allocator, self);
}

credential_identity credential_own(const credential *self)
{
    return self->own;
}

static SSL *open_by(SSL_CTX *context, bool accepting)
{
    SSL *ssl = SSL_new(context);
    if (ssl == NULL) {
        ERR_clear_error();
        return NULL;
    }
    if (accepting)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return ssl;
}

SSL *credential_open(const credential *self)
{
    return open_by(self->context, self->own.role == CREDENTIAL_SERVER);
}

int credential_verify_passed_on(const credential *self, const uint8_t *der, size_t size, X509 **out,
                                char text[CREDENTIAL_REFUSAL_SIZE])
{
    const unsigned char *at = der;
    X509 *certificate = size <= CERTIFICATE_BYTES ? d2i_X509(NULL, &at, (long)size) : NULL;
    int error = TARRY_ERROR_FORMAT;
    if (certificate == NULL || at != der + size)
        snprintf(text, CREDENTIAL_REFUSAL_SIZE, "what was passed on is no certificate");
    else
        error = credential_verify_client(SSL_CTX_get_cert_store(self->context), certificate, text);
    ERR_clear_error();
    if (error == TARRY_OK)
        *out = certificate;
    else
        X509_free(certificate);
    return error;
}

SSL *credential_open_between(const credential *self, bool accepting)
{
    return self->between == NULL ? NULL : open_by(self->between, accepting);
}

int credential_check_between(const credential *self, tarry_diagnostic *diagnostic)
{
    if (self->between != NULL)
        return TARRY_OK;
    int folder = (int)(strrchr(self->revoked_path, '/') - self->revoked_path);
    if (self->own.role == CREDENTIAL_VIEWER)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%.*s/cert.pem: is a viewer's", folder,
                        self->revoked_path);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "%.*s/cert.pem: is for one side of a connection; where workers make the sum "
                    "it has to be for both: tarry keys renew makes such ones",
                    folder, self->revoked_path);
}

void credential_fingerprint(const X509 *certificate,
                            uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES])
{
    unsigned size = CREDENTIAL_FINGERPRINT_BYTES;
    if (X509_digest(certificate, EVP_sha256(), fingerprint, &size) != 1)
        memset(fingerprint, 0, CREDENTIAL_FINGERPRINT_BYTES);
}

int credential_own_der(const credential *self, uint8_t *der, size_t room, size_t *size)
{
    const X509 *own = SSL_CTX_get0_certificate(self->context);
    int length = i2d_X509(own, NULL);
    unsigned char *at = der;
    if (length <= 0 || (size_t)length > room || i2d_X509(own, &at) != length) {
        ERR_clear_error();
        return TARRY_ERROR_FORMAT;
    }
    *size = (size_t)length;
    return TARRY_OK;
}

EVP_PKEY *credential_key(const credential *self)
{
    return SSL_CTX_get0_privatekey(self->context);
}

void credential_own_fingerprint(const credential *self,
                                uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES])
{
    credential_fingerprint(SSL_CTX_get0_certificate(self->context), fingerprint);
}

/* A file that was replaced has another inode, one that was written over another time of change. */
static bool is_same_file(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_ctim.tv_sec == other->st_ctim.tv_sec &&
           one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

int credential_refresh_revoked(credential *self, bool *changed, tarry_diagnostic *diagnostic)
{
    struct stat present;
    bool there = stat(self->revoked_path, &present) == 0;
    if ((!there && errno == ENOENT && self->revoked == NULL) ||
        (there && is_same_file(&present, &self->list))) {
        *changed = false;
        return TARRY_OK;
    }
    X509_CRL *revoked;
    int error = read_list(self, &revoked, &present, diagnostic);
    if (error != TARRY_OK)
        return error;
    X509_STORE *store = credential_store(self->authority, revoked);
    if (store == NULL) {
        X509_CRL_free(revoked);
        return diagnose_openssl(diagnostic, TARRY_ERROR_NO_MEMORY, self->revoked_path);
    }
    SSL_CTX_set_cert_store(self->context, store);
    if (self->between != NULL)
        SSL_CTX_set1_cert_store(self->between, store);
    X509_CRL_free(self->revoked);
    self->revoked = revoked;
    self->list = present;
    *changed = true;
    return TARRY_OK;
}

bool credential_is_revoked(const credential *self, X509 *certificate)
{
    X509_REVOKED *entry;
    return self->revoked != NULL && X509_CRL_get0_by_cert(self->revoked, &entry, certificate) == 1;
}

int credential_peer(const SSL *ssl, credential_identity *out)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    if (SSL_is_init_finished(ssl) != 1 || certificate == NULL ||
        SSL_get_verify_result(ssl) != X509_V_OK ||
        identity_of_certificate(certificate, out) != TARRY_OK)
        return TARRY_ERROR_STATE;
    return TARRY_OK;
}

int credential_roster(const credential *self, const tarry_allocator *allocator, roster_file **out,
                      tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int folder = (int)(strrchr(self->revoked_path, '/') - self->revoked_path);
    int length = snprintf(path, sizeof(path), "%.*s/" ROSTER_FILE_NAME, folder, self->revoked_path);
    if (length < 0 || (size_t)length >= sizeof(path))
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", ROSTER_FILE_NAME,
                        strerror(ENAMETOOLONG));
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: is missing; tarry keys roster makes it, where the authority is", path);
    return roster_file_read(path, self->authority, allocator, out, diagnostic);
}
