/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/credential.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/tcp/trust/private_file.h"
#include "runtime/tcp/trust/roster_file.h"

/* Whether somebody of that role connects to others, or accepts others. */
static bool is_on_side(credential_role role, bool accepts)
{
    return (role == CREDENTIAL_SERVER) == accepts;
}

/*
 * A verify callback of SSL_CTX_set_verify: a certificate is good if OpenSSL says so and its
 * identity fits the other side: workers and viewers connect, the server accepts.
 */
static int credential_verify_peer(int good, X509_STORE_CTX *context)
{
    if (good != 1 || X509_STORE_CTX_get_error_depth(context) != 0)
        return good;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
    credential_identity peer;
    if (identity_of_certificate(X509_STORE_CTX_get_current_cert(context), &peer) == TARRY_OK &&
        is_on_side(peer.role, SSL_is_server(ssl) == 0))
        return 1;
    X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* The same for connections between workers, and perhaps the server, that hand each other sums: any
 * member but a viewer. */
static int credential_verify_member(int good, X509_STORE_CTX *context)
{
    if (good != 1 || X509_STORE_CTX_get_error_depth(context) != 0)
        return good;
    credential_identity peer;
    if (identity_of_certificate(X509_STORE_CTX_get_current_cert(context), &peer) == TARRY_OK &&
        peer.role != CREDENTIAL_VIEWER)
        return 1;
    X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

const char *credential_verify_text(long result)
{
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "of another cluster than ca.pem";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "certificate is not yet valid (is the clock right?)";
    case X509_V_ERR_APPLICATION_VERIFICATION:
        return "not one for that side of a connection";
    default:
        return X509_verify_cert_error_string(result);
    }
}

/*
 * A store that trusts the authority alone and, unless revoked is NULL, refuses the certificates on
 * that list. It takes references of its own. NULL if there is no memory.
 */
static X509_STORE *credential_store(X509 *authority, X509_CRL *revoked)
{
    X509_STORE *store = X509_STORE_new();
    if (store == NULL)
        return NULL;
    if (X509_STORE_add_cert(store, authority) != 1 ||
        (revoked != NULL && (X509_STORE_add_crl(store, revoked) != 1 ||
                             X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) != 1))) {
        X509_STORE_free(store);
        return NULL;
    }
    return store;
}

/* Verifies the certificate of a client without a connection, as credential_verify_peer does for the
 * side that accepts. Errors: FORMAT, NO_MEMORY, with why in `text`. */
static int credential_verify_client(X509_STORE *store, X509 *certificate,
                                    char text[CREDENTIAL_REFUSAL_SIZE])
{
    char name[CREDENTIAL_NAME_SIZE] = "an unknown name";
    credential_identity peer = {0};
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    if (context == NULL || X509_STORE_CTX_init(context, store, certificate, NULL) != 1 ||
        X509_STORE_CTX_set_default(context, "ssl_client") != 1) {
        X509_STORE_CTX_free(context);
        snprintf(text, CREDENTIAL_REFUSAL_SIZE, "out of memory");
        return TARRY_ERROR_NO_MEMORY;
    }
    X509_STORE_CTX_set_depth(context, 0);
    bool named = identity_of_certificate(certificate, &peer) == TARRY_OK;
    if (named)
        identity_name(peer, name);
    long result = X509_V_ERR_APPLICATION_VERIFICATION;
    if (X509_verify_cert(context) != 1)
        result = X509_STORE_CTX_get_error(context);
    else if (named && is_on_side(peer.role, false))
        result = X509_V_OK;
    X509_STORE_CTX_free(context);
    if (result == X509_V_OK)
        return TARRY_OK;
    snprintf(text, CREDENTIAL_REFUSAL_SIZE, "certificate of %s: %s", name,
             credential_verify_text(result));
    return TARRY_ERROR_FORMAT;
}

/*
 * Checks a member's own certificate as its peers will. Errors: FORMAT, NO_MEMORY, with a diagnostic
 * that begins with `path`.
 */
static int credential_verify_own(X509_STORE *store, X509 *certificate, const char *path,
                                 tarry_diagnostic *diagnostic)
{
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    if (context == NULL || X509_STORE_CTX_init(context, store, certificate, NULL) != 1) {
        X509_STORE_CTX_free(context);
        return diagnose_openssl(diagnostic, TARRY_ERROR_NO_MEMORY, path);
    }
    int error = TARRY_OK;
    credential_identity own;
    if (X509_verify_cert(context) != 1)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s", path,
                         credential_verify_text(X509_STORE_CTX_get_error(context)));
    else if (identity_of_certificate(certificate, &own) != TARRY_OK)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "%s: not a server's, worker's or viewer's certificate", path);
    X509_STORE_CTX_free(context);
    ERR_clear_error();
    return error;
}

/*
 * Checks that the list is the authority's and in force now. Errors: FORMAT, with a diagnostic that
 * begins with `path`.
 */
static int credential_verify_list(X509_CRL *revoked, X509 *authority, const char *path,
                                  tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (X509_NAME_cmp(X509_CRL_get_issuer(revoked), X509_get_subject_name(authority)) != 0 ||
        X509_CRL_verify(revoked, X509_get0_pubkey(authority)) != 1)
        fault = "not signed by the authority in ca.pem";
    else if (X509_CRL_get0_nextUpdate(revoked) == NULL)
        fault = "does not say how long it is in force";
    else if (X509_cmp_current_time(X509_CRL_get0_nextUpdate(revoked)) <= 0)
        fault = "the list has expired";
    else if (X509_cmp_current_time(X509_CRL_get0_lastUpdate(revoked)) >= 0)
        fault = "the list is of the future (is the clock right?)";
    ERR_clear_error();
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s", path, fault);
}

bool credential_claimed_name(const SSL *ssl, char name[CREDENTIAL_NAME_SIZE])
{
    const STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    credential_identity claimed;
    if (chain == NULL || sk_X509_num(chain) == 0 ||
        identity_of_certificate(sk_X509_value(chain, 0), &claimed) != TARRY_OK)
        return false;
    identity_name(claimed, name);
    return true;
}

/* "certificate of worker-3" as far as the peer's certificate is known and has a name of ours. */
static void certificate_text(const SSL *ssl, char *text, size_t size)
{
    char name[CREDENTIAL_NAME_SIZE] = "an unknown name";
    credential_claimed_name(ssl, name);
    snprintf(text, size, "certificate of %s", name);
}

void credential_refusal(const SSL *ssl, char text[CREDENTIAL_REFUSAL_SIZE])
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(first);
    int code = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
    long verified = SSL_get_verify_result(ssl);
    ERR_clear_error();
    if (code == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        char whose[64];
        certificate_text(ssl, whose, sizeof(whose));
        snprintf(text, CREDENTIAL_REFUSAL_SIZE, "%s: %s", whose, credential_verify_text(verified));
        return;
    }
    snprintf(text, CREDENTIAL_REFUSAL_SIZE, "%s%s",
             code > SSL_AD_REASON_OFFSET ? "refused by the peer: " : "",
             reason != NULL ? reason : "the connection ended during the handshake");
}

/* ---- credential ---- */

struct credential {
    tarry_allocator allocator;
    credential_identity own;
    X509 *authority;
    SSL_CTX *context;
    SSL_CTX *between;    /* members; NULL: a viewer's */
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
    bool between = self->own.role != CREDENTIAL_VIEWER;
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
    int error = private_path(issued, directory, "issued", diagnostic);
    if (error == TARRY_OK && access(issued, F_OK) == 0 && access(certificate_path, F_OK) != 0)
        error =
            diagnose(diagnostic, TARRY_ERROR_FILE,
                     "%s: holds a whole cluster; name the folder of one member in it", directory);
    return error;
}

static int load_parts(credential *self, const char *directory, credential_parts *parts,
                      tarry_diagnostic *diagnostic)
{
    int error = private_path(parts->authority_path, directory, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = private_path(parts->certificate_path, directory, "cert.pem", diagnostic);
    if (error == TARRY_OK)
        error = private_path(parts->key_path, directory, "key.pem", diagnostic);
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
    int error = private_path(path, directory, "revoked.pem", diagnostic);
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
    int folder = (int)(strrchr(self->revoked_path, '/') - self->revoked_path);
    return self->between != NULL
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_FORMAT, "%.*s/cert.pem: is a viewer's", folder,
                          self->revoked_path);
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
        return diagnose_file(diagnostic, ROSTER_FILE_NAME, ENAMETOOLONG);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: is missing; tarry keys roster makes it, where the authority is", path);
    return roster_file_read(path, self->authority, allocator, out, diagnostic);
}

/* ---- key proof ---- */

enum {
    LABEL_BYTES = 32,
    STATEMENT_BYTES = LABEL_BYTES + 2 * KEY_PROOF_ID_BYTES + 4 + 8 + KEY_PROOF_KEY_BYTES,
};

/* Without a terminator. */
static const char label[LABEL_BYTES + 1] = "tarry: a key for secure sums, v1";

/* docs/wire.md has it, at KEY. */
static void write_statement(const key_claim *claim, uint8_t statement[STATEMENT_BYTES])
{
    uint8_t *at = statement;
    memcpy(at, label, LABEL_BYTES);
    at += LABEL_BYTES;
    memcpy(at, claim->job, KEY_PROOF_ID_BYTES);
    at = bytes_put(at + KEY_PROOF_ID_BYTES, claim->worker, 4);
    memcpy(at, claim->instance, KEY_PROOF_ID_BYTES);
    at = bytes_put(at + KEY_PROOF_ID_BYTES, claim->numerics, 8);
    memcpy(at, claim->key, KEY_PROOF_KEY_BYTES);
}

bool bytes_sign(EVP_PKEY *key, const void *bytes, size_t count, uint8_t *signature, size_t *size)
{
    EVP_MD_CTX *signing = EVP_MD_CTX_new();
    bool good = signing != NULL &&
                EVP_DigestSignInit(signing, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestSign(signing, signature, size, bytes, count) == 1;
    EVP_MD_CTX_free(signing);
    return good;
}

bool bytes_are_signed(const X509 *owner, const void *bytes, size_t count, const uint8_t *signature,
                      size_t size)
{
    EVP_PKEY *key = X509_get0_pubkey(owner);
    EVP_MD_CTX *verifying = EVP_MD_CTX_new();
    bool good = verifying != NULL && key != NULL &&
                EVP_DigestVerifyInit(verifying, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestVerify(verifying, signature, size, bytes, count) == 1;
    EVP_MD_CTX_free(verifying);
    ERR_clear_error();
    return good;
}

int key_proof_sign(const credential *self, const key_claim *claim,
                   uint8_t signature[KEY_PROOF_MOST], size_t *size)
{
    uint8_t statement[STATEMENT_BYTES];
    size_t written = KEY_PROOF_MOST;
    write_statement(claim, statement);
    bool good = bytes_sign(SSL_CTX_get0_privatekey(self->context), statement, sizeof(statement),
                           signature, &written);
    ERR_clear_error();
    if (!good)
        return TARRY_ERROR_SYSTEM;
    *size = written;
    return TARRY_OK;
}

int key_proof_verify(const credential *self, const uint8_t *certificate, size_t certificate_size,
                     const uint8_t *signature, size_t signature_size, const key_claim *claim,
                     uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES],
                     char text[CREDENTIAL_REFUSAL_SIZE])
{
    X509 *verified;
    credential_identity owner;
    uint8_t statement[STATEMENT_BYTES];
    int error = credential_verify_passed_on(self, certificate, certificate_size, &verified, text);
    if (error != TARRY_OK)
        return error;
    const char *fault = NULL;
    write_statement(claim, statement);
    if (identity_of_certificate(verified, &owner) != TARRY_OK || owner.role != CREDENTIAL_WORKER ||
        owner.worker != claim->worker)
        fault = "its certificate is not that of this worker";
    else if (!bytes_are_signed(verified, statement, sizeof(statement), signature, signature_size))
        fault = "it is not signed by the key of its certificate";
    if (fault == NULL)
        credential_fingerprint(verified, fingerprint);
    else
        snprintf(text, CREDENTIAL_REFUSAL_SIZE, "%s", fault);
    X509_free(verified);
    return fault == NULL ? TARRY_OK : TARRY_ERROR_FORMAT;
}

/* ---- identity ---- */

#define WORKER_PREFIX "worker-"

enum { BOTH_USAGES = XKU_SSL_SERVER | XKU_SSL_CLIENT };

/* Decimal digits without leading zeros: an identity has one name. */
static int parse_id(const char *text, uint32_t *id)
{
    uint32_t value = 0;
    size_t length = strlen(text);
    if (length == 0 || length > 6 || (text[0] == '0' && length > 1))
        return TARRY_ERROR_FORMAT;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return TARRY_ERROR_FORMAT;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *id = value;
    return TARRY_OK;
}

int identity_parse(const char *name, credential_identity *out)
{
    static const size_t prefix = sizeof(WORKER_PREFIX) - 1;
    credential_identity identity = {.role = CREDENTIAL_WORKER, .worker = CREDENTIAL_ANY_ID};
    if (strcmp(name, "worker") == 0 || (strncmp(name, WORKER_PREFIX, prefix) == 0 &&
                                        parse_id(name + prefix, &identity.worker) == TARRY_OK)) {
        *out = identity;
        return TARRY_OK;
    }
    if (strcmp(name, "server") != 0 && strcmp(name, "viewer") != 0)
        return TARRY_ERROR_FORMAT;
    *out = (credential_identity){
        .role = strcmp(name, "server") == 0 ? CREDENTIAL_SERVER : CREDENTIAL_VIEWER,
    };
    return TARRY_OK;
}

void identity_name(credential_identity identity, char name[CREDENTIAL_NAME_SIZE])
{
    static const char *const words[] = {
        [CREDENTIAL_SERVER] = "server",
        [CREDENTIAL_WORKER] = "worker",
        [CREDENTIAL_VIEWER] = "viewer",
    };
    if (identity.role == CREDENTIAL_WORKER && identity.worker != CREDENTIAL_ANY_ID)
        snprintf(name, CREDENTIAL_NAME_SIZE, WORKER_PREFIX "%u", identity.worker);
    else
        snprintf(name, CREDENTIAL_NAME_SIZE, "%s", words[identity.role]);
}

/* The text of the only common name; a second one, a long one or one with a NUL inside is none. */
static int common_name(X509 *certificate, char name[CREDENTIAL_NAME_SIZE])
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
        return TARRY_ERROR_FORMAT;
    const ASN1_STRING *text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int length = ASN1_STRING_length(text);
    if (ASN1_STRING_type(text) != V_ASN1_UTF8STRING &&
        ASN1_STRING_type(text) != V_ASN1_PRINTABLESTRING)
        return TARRY_ERROR_FORMAT;
    if (length >= CREDENTIAL_NAME_SIZE)
        return TARRY_ERROR_FORMAT;
    memcpy(name, ASN1_STRING_get0_data(text), (size_t)length);
    name[length] = '\0';
    return strlen(name) == (size_t)length ? TARRY_OK : TARRY_ERROR_FORMAT;
}

int identity_of_certificate(X509 *certificate, credential_identity *out)
{
    char name[CREDENTIAL_NAME_SIZE];
    credential_identity identity;
    if (common_name(certificate, name) != TARRY_OK || identity_parse(name, &identity) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    const uint32_t wanted = identity.role == CREDENTIAL_VIEWER ? XKU_SSL_CLIENT : BOTH_USAGES;
    if (X509_get_extended_key_usage(certificate) != wanted) /* UINT32_MAX: it states none */
        return TARRY_ERROR_FORMAT;
    *out = identity;
    return TARRY_OK;
}

/* ---- openssl error ---- */

int diagnose_openssl(tarry_diagnostic *diagnostic, int error, const char *what)
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(first);
    bool no_memory = ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE;
    ERR_clear_error();
    if (no_memory)
        return diagnose_no_memory(diagnostic, what);
    return diagnose(diagnostic, error, "%s: %s", what, reason != NULL ? reason : "unknown reason");
}
