/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/authority.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/memory.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/private_file.h"
#include "runtime/tcp/trust/roster_file.h"

/* The authority, read from its directory. */
typedef struct authority_state {
    issue_signer signer;
    X509_CRL *revoked;
    STACK_OF(X509) * issued;
    DIR *lock; /* held until the state is closed: one process at a time changes the directory;
                * NULL: the directory is being made */
} authority_state;

enum { FOLDER_MODE = 0700, OPEN_FOLDERS = 8 };

void authority_serial(const X509 *certificate, char serial[AUTHORITY_SERIAL_SIZE])
{
    /* Our own are positive and of 16 bytes; of a longer one the first bytes tell. */
    const ASN1_INTEGER *number = X509_get0_serialNumber(certificate);
    const unsigned char *bytes = ASN1_STRING_get0_data(number);
    int length = ASN1_STRING_length(number);
    size_t most = (AUTHORITY_SERIAL_SIZE - 1) / 2;
    hex_put(serial, bytes, (size_t)length < most ? (size_t)length : most);
}

static int authority_folder(const char *path, tarry_diagnostic *diagnostic)
{
    if (mkdir(path, FOLDER_MODE) != 0 || chmod(path, FOLDER_MODE) != 0)
        return diagnose_file(diagnostic, path, errno);
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

/* Gets all that was written below the folder onto the disk. */
static int authority_sync(const char *path, tarry_diagnostic *diagnostic)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return diagnose_file(diagnostic, path, errno);
    int error = syncfs(dirfd(folder)) == 0 ? TARRY_OK : diagnose_file(diagnostic, path, errno);
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
    int error = private_path(folder_path, directory, "issued", diagnostic);
    if (error != TARRY_OK)
        return error;
    DIR *folder = opendir(folder_path);
    if (folder == NULL)
        return diagnose_file(diagnostic, folder_path, errno);
    const struct dirent *entry;
    while (error == TARRY_OK && (entry = readdir(folder)) != NULL) {
        X509 *certificate;
        if (!is_certificate_file(entry->d_name))
            continue;
        error = private_path(path, folder_path, entry->d_name, diagnostic);
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
    int error = private_path(path, directory, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_read_certificate(path, &signer->certificate, diagnostic);
    if (error != TARRY_OK || !signing)
        return error;
    error = private_path(path, directory, "ca-key.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_read_key(path, &signer->key, diagnostic);
    if (error == TARRY_OK && X509_check_private_key(signer->certificate, signer->key) != 1) {
        ERR_clear_error();
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the key of ca.pem", path);
    }
    return error;
}

/* Waits for the lock and reads; authority_close in any case. `signing`: with the key. */
static int authority_open(const char *directory, bool signing, authority_state *state,
                          tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    *state = (authority_state){0};
    int error = private_path(path, directory, "revoked.pem", diagnostic);
    if (error != TARRY_OK)
        return error;
    state->lock = opendir(directory);
    if (state->lock == NULL || flock(dirfd(state->lock), LOCK_EX) != 0)
        return diagnose_file(diagnostic, directory, errno);
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

static void authority_close(authority_state *state)
{
    issue_signer_clear(&state->signer);
    X509_CRL_free(state->revoked);
    sk_X509_pop_free(state->issued, X509_free);
    if (state->lock != NULL)
        closedir(state->lock);
}

typedef int pem_encoder(BIO *content, const void *object);

static int encode_certificate(BIO *content, const void *certificate)
{
    return PEM_write_bio_X509(content, certificate);
}

static int encode_key(BIO *content, const void *key)
{
    return PEM_write_bio_PrivateKey(content, key, NULL, NULL, 0, NULL, NULL);
}

static int encode_list(BIO *content, const void *list)
{
    return PEM_write_bio_X509_CRL(content, list);
}

/* Writes the file `name` of the folder. */
static int write_pem(const char *folder, const char *name, pem_encoder *encode, const void *object,
                     private_file_writer *write, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = private_path(path, folder, name, diagnostic);
    if (error != TARRY_OK)
        return error;
    BIO *content = BIO_new(BIO_s_mem());
    error = content != NULL && encode(content, object) == 1
                ? write(path, content, diagnostic)
                : diagnose_openssl(diagnostic, TARRY_ERROR_NO_MEMORY, path);
    BIO_free(content);
    return error;
}

/* One unreadable certificate would keep all others from being revoked: each comes to its name in
 * one step. A directory that is being made has no readers, and is synced as a whole. */
static int record_issued(const char *directory, const authority_state *state, X509 *certificate,
                         tarry_diagnostic *diagnostic)
{
    char name[sizeof("issued/") + AUTHORITY_SERIAL_SIZE + sizeof(".pem")];
    char serial[AUTHORITY_SERIAL_SIZE];
    authority_serial(certificate, serial);
    snprintf(name, sizeof(name), "issued/%s.pem", serial);
    return write_pem(directory, name, encode_certificate, certificate,
                     state->lock != NULL ? private_file_replace : private_file_create, diagnostic);
}

/* Writes issued/SERIAL.pem of a new member and the files of its folder, which it makes. Who dies
 * meanwhile leaves a directory that can still be read. */
static int authority_write_member(const char *directory, const char *folder,
                                  const authority_state *state, X509 *certificate, EVP_PKEY *key,
                                  tarry_diagnostic *diagnostic)
{
    /* First of all, so that whatever key gets out can be revoked. */
    int error = record_issued(directory, state, certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_folder(folder, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(folder, "ca.pem", encode_certificate, state->signer.certificate,
                          private_file_create, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(folder, "cert.pem", encode_certificate, certificate, private_file_create,
                          diagnostic);
    if (error == TARRY_OK)
        error = write_pem(folder, "key.pem", encode_key, key, private_file_create, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(folder, "revoked.pem", encode_list, state->revoked, private_file_create,
                          diagnostic);
    return error;
}

/* The roster of secure sums: which workers the authority lets take part. */

static bool is_revoked(const authority_state *state, X509 *certificate)
{
    X509_REVOKED *entry;
    return X509_CRL_get0_by_cert(state->revoked, &entry, certificate) == 1;
}

static bool is_good(const authority_state *state, X509 *certificate, int64_t now)
{
    time_t moment = (time_t)now;
    return !is_revoked(state, certificate) &&
           X509_cmp_time(X509_get0_notAfter(certificate), &moment) > 0;
}

static int compare_entries(const void *one, const void *other)
{
    const roster_entry *a = one, *b = other;
    if (a->worker != b->worker)
        return a->worker < b->worker ? -1 : 1;
    return memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint));
}

/* Of two certificates the later one; of one moment, one that is the same in every run. */
static bool is_later(const X509 *one, const X509 *other)
{
    int order = ASN1_TIME_compare(X509_get0_notAfter(one), X509_get0_notAfter(other));
    return order != 0 ? order > 0 : X509_cmp(one, other) > 0;
}

/* Whether another good certificate takes this one's place. */
static bool is_superseded(const authority_state *state, X509 *certificate,
                          credential_identity identity, int64_t now)
{
    for (int i = 0; i < sk_X509_num(state->issued); i++) {
        X509 *other = sk_X509_value(state->issued, i);
        credential_identity its;
        if (other != certificate && identity_of_certificate(other, &its) == TARRY_OK &&
            its.role == identity.role && its.worker == identity.worker &&
            is_good(state, other, now) && is_later(other, certificate))
            return true;
    }
    return false;
}

static size_t list_workers(const authority_state *state, int64_t now, roster_entry *entries)
{
    size_t count = 0;
    for (int i = 0; i < sk_X509_num(state->issued); i++) {
        X509 *certificate = sk_X509_value(state->issued, i);
        credential_identity identity;
        if (identity_of_certificate(certificate, &identity) != TARRY_OK ||
            identity.role != CREDENTIAL_WORKER || identity.worker == CREDENTIAL_ANY_ID ||
            !is_good(state, certificate, now) || is_superseded(state, certificate, identity, now))
            continue;
        entries[count].worker = identity.worker;
        credential_fingerprint(certificate, entries[count].fingerprint);
        count++;
    }
    qsort(entries, count, sizeof(*entries), compare_entries);
    return count;
}

static bool is_same_list(const roster_file *last, const roster_entry *entries, size_t count)
{
    if (last == NULL || last->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (compare_entries(&last->entries[i], &entries[i]) != 0)
            return false;
    return true;
}

/* The roster in the directory; *out NULL: there is none yet. */
static int read_last(const char *path, X509 *authority, roster_file **out,
                     tarry_diagnostic *diagnostic)
{
    *out = NULL;
    if (access(path, F_OK) != 0)
        return TARRY_OK;
    return roster_file_read(path, authority, NULL, out, diagnostic);
}

static int write_bytes(const char *path, const char *bytes, size_t size,
                       tarry_diagnostic *diagnostic)
{
    BIO *content = BIO_new_mem_buf(bytes, (int)size);
    if (content == NULL)
        return diagnose_no_memory(diagnostic, path);
    int error = private_file_replace(path, content, diagnostic);
    BIO_free(content);
    return error;
}

/* Into the folder of that name, if it is there. */
static int write_copy(const char *directory, const char *name, const char *bytes, size_t size,
                      tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX], path[PATH_MAX];
    int error = private_path(folder, directory, name, diagnostic);
    if (error == TARRY_OK)
        error = private_path(path, folder, ROSTER_FILE_NAME, diagnostic);
    if (error != TARRY_OK || access(folder, F_OK) != 0)
        return error;
    return write_bytes(path, bytes, size, diagnostic);
}

/* The authority's own copy comes first: its number is never given to another list. */
static int write_copies(const char *directory, const char *path, const roster_entry *entries,
                        size_t count, const char *bytes, size_t size, tarry_diagnostic *diagnostic)
{
    int error = write_bytes(path, bytes, size, diagnostic);
    if (error == TARRY_OK)
        error = write_copy(directory, "server", bytes, size, diagnostic);
    for (size_t i = 0; error == TARRY_OK && i < count; i++) {
        char name[CREDENTIAL_NAME_SIZE];
        const credential_identity worker = {CREDENTIAL_WORKER, entries[i].worker};
        identity_name(worker, name);
        error = write_copy(directory, name, bytes, size, diagnostic);
    }
    return error;
}

static int make_roster(const char *directory, const authority_state *state, roster_entry *entries,
                       int64_t now, authority_rostered *out, tarry_diagnostic *diagnostic)
{
    roster_file *last;
    char path[PATH_MAX], *bytes;
    size_t size, count = list_workers(state, now, entries);
    int error = private_path(path, directory, ROSTER_FILE_NAME, diagnostic);
    if (error == TARRY_OK && count == 0)
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s: has no worker with an id of its own",
                         directory);
    if (error == TARRY_OK)
        error = read_last(path, state->signer.certificate, &last, diagnostic);
    if (error != TARRY_OK)
        return error;
    bool same = is_same_list(last, entries, count);
    uint64_t number = last == NULL ? 1 : same ? last->number : last->number + 1;
    roster_file_free(last);
    if (number == 0)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "%s: no number is left", path);
    error = roster_file_encode(entries, count, number, state->signer.certificate, state->signer.key,
                               &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = write_copies(directory, path, entries, count, bytes, size, diagnostic);
    memory_release(NULL, bytes);
    if (error == TARRY_OK)
        *out = (authority_rostered){.number = number, .workers = count, .same = same};
    return error;
}

int authority_roster(const char *directory, int64_t now, authority_rostered *out,
                     tarry_diagnostic *diagnostic)
{
    authority_state state;
    roster_entry *entries = NULL;
    int error = authority_open(directory, true, &state, diagnostic);
    if (error == TARRY_OK) {
        entries = memory_allocate(NULL, (size_t)sk_X509_num(state.issued), sizeof(*entries));
        error = entries != NULL ? make_roster(directory, &state, entries, now, out, diagnostic)
                                : diagnose_no_memory(diagnostic, directory);
    }
    memory_release(NULL, entries);
    authority_close(&state);
    return error;
}

int authority_read_roster(const char *directory, roster_file **out, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    authority_state state;
    int error = private_path(path, directory, ROSTER_FILE_NAME, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = authority_open(directory, false, &state, diagnostic);
    if (error == TARRY_OK)
        error = read_last(path, state.signer.certificate, out, diagnostic);
    authority_close(&state);
    return error;
}

/* ---- issue ---- */

enum {
    BACKDATE_SECONDS = 3600,
    SERIAL_BITS = 128,
    SUBJECT_NAMES_SIZE = (ISSUE_HOSTS + 1) * (ISSUE_HOST_SIZE + 8),
};

static const char AUTHORITY_NAME[] = "Tarry cluster authority";

typedef struct extension {
    int nid;
    const char *value; /* as in openssl.cnf */
} extension;

void issue_signer_clear(issue_signer *signer)
{
    X509_free(signer->certificate);
    EVP_PKEY_free(signer->key);
    *signer = (issue_signer){0};
}

int issue_key(EVP_PKEY **out, tarry_diagnostic *diagnostic)
{
    ERR_clear_error();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    if (key == NULL)
        return diagnose_openssl(diagnostic, TARRY_ERROR_SYSTEM, "making a key");
    *out = key;
    return TARRY_OK;
}

/* `days` and `seconds` from `now`; the time's own, or NULL. */
static ASN1_TIME *set_time(ASN1_TIME *time, int64_t now, int days, long seconds)
{
    time_t base = (time_t)now;
    return X509_time_adj_ex(time, days, seconds, &base);
}

/* The highest bit is set, so that all numbers have as many digits. */
static int set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    int good = number != NULL &&
               BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
               BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return good;
}

static int add_extension(X509 *certificate, X509 *issuer, extension wanted)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &context, wanted.nid, wanted.value);
    int good = made != NULL && X509_add_ext(certificate, made, -1) == 1;
    X509_EXTENSION_free(made);
    return good;
}

/* issuer: NULL for a certificate that signs itself. 1 on success. */
static int fill_certificate(X509 *certificate, const char *name, EVP_PKEY *key, X509 *issuer,
                            int days, int64_t now)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) == 1 &&
           set_time(X509_getm_notBefore(certificate), now, 0, -BACKDATE_SECONDS) != NULL &&
           set_time(X509_getm_notAfter(certificate), now, days, 0) != NULL &&
           X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate,
                                issuer != NULL ? X509_get_subject_name(issuer) : subject) == 1;
}

int issue_authority(int64_t now, issue_signer *out, tarry_diagnostic *diagnostic)
{
    static const extension extensions[] = {
        {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"},
    };
    issue_signer made = {0};
    int error = issue_key(&made.key, diagnostic);
    if (error != TARRY_OK)
        return error;
    made.certificate = X509_new();
    int good =
        made.certificate != NULL && fill_certificate(made.certificate, AUTHORITY_NAME, made.key,
                                                     NULL, ISSUE_AUTHORITY_DAYS, now) == 1;
    for (size_t i = 0; good && i < sizeof(extensions) / sizeof(extensions[0]); i++)
        good = add_extension(made.certificate, made.certificate, extensions[i]);
    if (!good || X509_sign(made.certificate, made.key, EVP_sha256()) == 0) {
        issue_signer_clear(&made);
        return diagnose_openssl(diagnostic, TARRY_ERROR_SYSTEM, "making the authority");
    }
    *out = made;
    return TARRY_OK;
}

static int is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

int issue_check_host(const char *host, tarry_diagnostic *diagnostic)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    size_t length = strlen(host);
    if (length < ISSUE_HOST_SIZE && is_address(host))
        return TARRY_OK;
    if (length == 0 || length >= ISSUE_HOST_SIZE || strspn(host, letters) != length ||
        strchr("-.", host[0]) != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "'%.*s' is neither a host's name nor an IP address", ISSUE_HOST_SIZE, host);
    return TARRY_OK;
}

/* "DNS:tarry-server,DNS:node1,IP:192.0.2.7"; the hosts were checked: none has a comma. */
static void subject_names(const char *const *hosts, size_t count, char text[SUBJECT_NAMES_SIZE])
{
    int used = snprintf(text, SUBJECT_NAMES_SIZE, "DNS:%s", CREDENTIAL_SERVER_NAME);
    for (size_t i = 0; i < count; i++)
        used += snprintf(text + used, SUBJECT_NAMES_SIZE - (size_t)used, ",%s:%s",
                         is_address(hosts[i]) ? "IP" : "DNS", hosts[i]);
}

int issue_certificate(const issue_signer *signer, EVP_PKEY *key, credential_identity identity,
                      const char *const *hosts, size_t count, int64_t now, X509 **out,
                      tarry_diagnostic *diagnostic)
{
    char name[CREDENTIAL_NAME_SIZE], names[SUBJECT_NAMES_SIZE];
    const extension extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage,
         identity.role == CREDENTIAL_VIEWER ? "clientAuth" : "serverAuth,clientAuth"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"},
    };
    for (size_t i = 0; i < count; i++) {
        int error = issue_check_host(hosts[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    identity_name(identity, name);
    subject_names(hosts, count, names);
    ERR_clear_error();
    X509 *made = X509_new();
    int good = made != NULL &&
               fill_certificate(made, name, key, signer->certificate, ISSUE_MEMBER_DAYS, now) == 1;
    for (size_t i = 0; good && i < sizeof(extensions) / sizeof(extensions[0]); i++)
        good = add_extension(made, signer->certificate, extensions[i]);
    if (good && identity.role == CREDENTIAL_SERVER)
        good = add_extension(made, signer->certificate, (extension){NID_subject_alt_name, names});
    if (!good || X509_sign(made, signer->key, EVP_sha256()) == 0) {
        X509_free(made);
        return diagnose_openssl(diagnostic, TARRY_ERROR_SYSTEM, "making a certificate");
    }
    *out = made;
    return TARRY_OK;
}

/* The list's entry of a certificate. */
static int add_revoked(X509_CRL *list, X509 *certificate, ASN1_TIME *when)
{
    X509_REVOKED *entry = X509_REVOKED_new();
    if (entry != NULL &&
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate)) == 1 &&
        X509_REVOKED_set_revocationDate(entry, when) == 1 && X509_CRL_add0_revoked(list, entry))
        return 1;
    X509_REVOKED_free(entry);
    return 0;
}

static int copy_revoked(X509_CRL *list, const X509_CRL *previous)
{
    STACK_OF(X509_REVOKED) *entries = X509_CRL_get_REVOKED((X509_CRL *)previous);
    for (int i = 0; i < sk_X509_REVOKED_num(entries); i++) {
        X509_REVOKED *copy = X509_REVOKED_dup(sk_X509_REVOKED_value(entries, i));
        if (copy == NULL || X509_CRL_add0_revoked(list, copy) != 1) {
            X509_REVOKED_free(copy);
            return 0;
        }
    }
    return 1;
}

/* Lists are numbered from 1 (RFC 5280, 5.2.3). */
static int add_number(X509_CRL *list, const X509_CRL *previous)
{
    int64_t last = 0;
    ASN1_INTEGER *before =
        previous != NULL ? X509_CRL_get_ext_d2i(previous, NID_crl_number, NULL, NULL) : NULL;
    if (before != NULL)
        ASN1_INTEGER_get_int64(&last, before);
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    int good = number != NULL && ASN1_INTEGER_set_int64(number, last + 1) == 1 &&
               X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, 0) == 1;
    ASN1_INTEGER_free(before);
    ASN1_INTEGER_free(number);
    return good;
}

static int add_key_identifier(X509_CRL *list, X509 *issuer)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, NULL, NULL, list, 0);
    X509_EXTENSION *made =
        X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid:always");
    int good = made != NULL && X509_CRL_add_ext(list, made, -1) == 1;
    X509_EXTENSION_free(made);
    return good;
}

/*
 * The revocation list that follows `previous` (NULL: the first one) and has
 * certificates[0..count-1] too, which are not on that list.
 */
static int issue_list(const issue_signer *signer, const X509_CRL *previous,
                      X509 *const *certificates, size_t count, int64_t now, X509_CRL **out,
                      tarry_diagnostic *diagnostic)
{
    ERR_clear_error();
    X509_CRL *made = X509_CRL_new();
    ASN1_TIME *from = set_time(NULL, now, 0, -BACKDATE_SECONDS);
    ASN1_TIME *to = set_time(NULL, now, ISSUE_AUTHORITY_DAYS, 0);
    int good =
        made != NULL && from != NULL && to != NULL &&
        X509_CRL_set_version(made, X509_CRL_VERSION_2) == 1 &&
        X509_CRL_set_issuer_name(made, X509_get_subject_name(signer->certificate)) == 1 &&
        X509_CRL_set1_lastUpdate(made, from) == 1 && X509_CRL_set1_nextUpdate(made, to) == 1 &&
        add_key_identifier(made, signer->certificate) == 1 && add_number(made, previous) == 1 &&
        (previous == NULL || copy_revoked(made, previous) == 1);
    for (size_t i = 0; good && i < count; i++)
        good = add_revoked(made, certificates[i], from);
    good = good && X509_CRL_sort(made) == 1 && X509_CRL_sign(made, signer->key, EVP_sha256()) != 0;
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
    if (!good) {
        X509_CRL_free(made);
        return diagnose_openssl(diagnostic, TARRY_ERROR_SYSTEM, "making a revocation list");
    }
    *out = made;
    return TARRY_OK;
}

/* ---- authority ---- */

/* A member's key, certificate and files, in a new folder. */
static int make_member(const char *directory, const char *folder, const authority_state *state,
                       credential_identity identity, authority_hosts hosts, int64_t now,
                       tarry_diagnostic *diagnostic)
{
    EVP_PKEY *key = NULL;
    X509 *certificate = NULL;
    int error = issue_key(&key, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = issue_certificate(&state->signer, key, identity, hosts.names, hosts.count, now,
                              &certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_write_member(directory, folder, state, certificate, key, diagnostic);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return error;
}

static int make_named(const char *directory, const authority_state *state,
                      credential_identity identity, authority_hosts hosts, int64_t now,
                      tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX], name[CREDENTIAL_NAME_SIZE];
    identity_name(identity, name);
    int error = private_path(folder, directory, name, diagnostic);
    if (error != TARRY_OK)
        return error;
    return make_member(directory, folder, state, identity, hosts, now, diagnostic);
}

/* The authority's own files. */
static int make_authority(const char *directory, authority_state *state, int64_t now,
                          tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    int error = issue_authority(now, &state->signer, diagnostic);
    if (error == TARRY_OK)
        error = issue_list(&state->signer, NULL, NULL, 0, now, &state->revoked, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(directory, "ca.pem", encode_certificate, state->signer.certificate,
                          private_file_create, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(directory, "ca-key.pem", encode_key, state->signer.key,
                          private_file_create, diagnostic);
    if (error == TARRY_OK)
        error = write_pem(directory, "revoked.pem", encode_list, state->revoked,
                          private_file_create, diagnostic);
    if (error == TARRY_OK)
        error = private_path(path, directory, "issued", diagnostic);
    if (error == TARRY_OK)
        error = authority_folder(path, diagnostic);
    return error;
}

static int make_cluster(const char *directory, uint32_t workers, authority_hosts hosts, int64_t now,
                        const atomic_bool *stop, tarry_diagnostic *diagnostic)
{
    static const authority_hosts none = {0};
    const credential_identity others[] = {
        {.role = CREDENTIAL_WORKER, .worker = CREDENTIAL_ANY_ID},
        {.role = CREDENTIAL_VIEWER},
    };
    authority_state state = {0};
    int error = make_authority(directory, &state, now, diagnostic);
    if (error == TARRY_OK)
        error = make_named(directory, &state, (credential_identity){.role = CREDENTIAL_SERVER},
                           hosts, now, diagnostic);
    for (uint32_t id = 0; error == TARRY_OK && id < workers; id++) {
        if (stop != NULL && atomic_load(stop))
            error = diagnose(diagnostic, TARRY_ERROR_INTERRUPTED, "interrupted, nothing was made");
        else
            error = make_named(directory, &state,
                               (credential_identity){.role = CREDENTIAL_WORKER, .worker = id}, none,
                               now, diagnostic);
    }
    for (size_t i = 0; error == TARRY_OK && i < sizeof(others) / sizeof(others[0]); i++)
        error = make_named(directory, &state, others[i], none, now, diagnostic);
    authority_close(&state);
    return error;
}

/* What there is already is told before any work; the rename at the end holds to it. */
static int check_free(const char *directory, tarry_diagnostic *diagnostic)
{
    if (access(directory, F_OK) == 0 && rmdir(directory) != 0) {
        if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
            return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: exists already", directory);
        return diagnose_file(diagnostic, directory, errno);
    }
    return TARRY_OK;
}

int authority_init(const char *directory, uint32_t workers, authority_hosts hosts, int64_t now,
                   const atomic_bool *stop, tarry_diagnostic *diagnostic)
{
    char target[PATH_MAX], temporary[PATH_MAX];
    int length = snprintf(target, sizeof(target), "%s", directory);
    while (length > 1 && length < PATH_MAX && target[length - 1] == '/')
        target[--length] = '\0';
    if (length >= PATH_MAX ||
        snprintf(temporary, sizeof(temporary), "%s.new-XXXXXX", target) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return diagnose_file(diagnostic, directory, errno);
    }
    for (size_t i = 0; i < hosts.count; i++) {
        int error = issue_check_host(hosts.names[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    int error = check_free(target, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (mkdtemp(temporary) == NULL)
        return diagnose_file(diagnostic, directory, errno);
    error = make_cluster(temporary, workers, hosts, now, stop, diagnostic);
    if (error == TARRY_OK)
        error = authority_sync(temporary, diagnostic);
    /* A rename never takes the place of a directory with anything in it. */
    if (error == TARRY_OK && rename(temporary, target) != 0)
        error = diagnose_file(diagnostic, directory, errno);
    if (error != TARRY_OK)
        authority_remove(temporary);
    return error;
}

typedef struct tally {
    size_t issued, good;
} tally;

/* The certificates of that name; those not revoked are put into good[] unless it is NULL. */
static tally count_issued(const authority_state *state, credential_identity wanted, X509 **good)
{
    tally count = {0};
    for (int i = 0; i < sk_X509_num(state->issued); i++) {
        X509 *certificate = sk_X509_value(state->issued, i);
        credential_identity identity;
        if (identity_of_certificate(certificate, &identity) != TARRY_OK ||
            identity.role != wanted.role || identity.worker != wanted.worker)
            continue;
        count.issued++;
        if (is_revoked(state, certificate))
            continue;
        if (good != NULL)
            good[count.good] = certificate;
        count.good++;
    }
    return count;
}

/* Makes the folder under another name, and then puts it in its place. */
static int add_member(const char *directory, const char *folder, const char *name,
                      const authority_state *state, credential_identity identity,
                      authority_hosts hosts, int64_t now, tarry_diagnostic *diagnostic)
{
    char hidden[CREDENTIAL_NAME_SIZE + sizeof(".-new")], temporary[PATH_MAX];
    snprintf(hidden, sizeof(hidden), ".%s-new", name);
    int error = private_path(temporary, directory, hidden, diagnostic);
    if (error != TARRY_OK)
        return error;
    authority_remove(temporary); /* what an interrupted run left */
    error = make_member(directory, temporary, state, identity, hosts, now, diagnostic);
    if (error == TARRY_OK)
        error = authority_sync(temporary, diagnostic);
    if (error == TARRY_OK) {
        authority_remove(folder);
        if (rename(temporary, folder) != 0)
            error = diagnose_file(diagnostic, folder, errno);
    }
    if (error != TARRY_OK)
        authority_remove(temporary);
    return error;
}

int authority_add(const char *directory, credential_identity identity, authority_hosts hosts,
                  int64_t now, tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX], name[CREDENTIAL_NAME_SIZE];
    identity_name(identity, name);
    int error = private_path(folder, directory, name, diagnostic);
    if (error != TARRY_OK)
        return error;
    authority_state state;
    error = authority_open(directory, true, &state, diagnostic);
    tally count = error == TARRY_OK ? count_issued(&state, identity, NULL) : (tally){0};
    if (error == TARRY_OK && access(folder, F_OK) == 0 && (count.issued == 0 || count.good > 0))
        error = diagnose(diagnostic, TARRY_ERROR_STATE,
                         "%s: exists already (revoke %s, or move the folder away, for another one)",
                         folder, name);
    if (error == TARRY_OK)
        error = add_member(directory, folder, name, &state, identity, hosts, now, diagnostic);
    authority_close(&state);
    return error;
}

/* The list to where the server of this machine, or whoever copies its folder, takes it from. */
static int publish_list(const char *directory, X509_CRL *list, tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX];
    int error = private_path(folder, directory, "server", diagnostic);
    return error != TARRY_OK || access(folder, F_OK) != 0
               ? error
               : write_pem(folder, "revoked.pem", encode_list, list, private_file_replace,
                           diagnostic);
}

static int revoke_all(const char *directory, const authority_state *state, X509 *const *good,
                      size_t count, int64_t now, tarry_diagnostic *diagnostic)
{
    X509_CRL *list;
    int error = issue_list(&state->signer, state->revoked, good, count, now, &list, diagnostic);
    if (error != TARRY_OK)
        return error;
    error =
        write_pem(directory, "revoked.pem", encode_list, list, private_file_replace, diagnostic);
    if (error == TARRY_OK)
        error = publish_list(directory, list, diagnostic);
    X509_CRL_free(list);
    return error;
}

/* Leaves only the certificate of that serial number in good[0..*count-1]. */
static void keep_serial(const char *serial, X509 **good, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        char its[AUTHORITY_SERIAL_SIZE];
        authority_serial(good[i], its);
        if (strcasecmp(its, serial) == 0)
            good[kept++] = good[i];
    }
    *count = kept;
}

/* Why there is nothing to revoke. */
static int refuse_to_revoke(const char *directory, const authority_state *state, const char *name,
                            const char *serial, tally count, tarry_diagnostic *diagnostic)
{
    if (count.issued == 0)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "%s: no such member in %s", name, directory);
    if (count.good > 0)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: no certificate with the serial %s that is still good (tarry keys list "
                        "%s shows them)",
                        name, serial, directory);
    /* The run that revoked it may have been interrupted before it told the server. */
    int error = publish_list(directory, state->revoked, diagnostic);
    return error == TARRY_OK ? diagnose(diagnostic, TARRY_ERROR_STATE, "%s: revoked already", name)
                             : error;
}

int authority_revoke(const char *directory, credential_identity identity, const char *serial,
                     int64_t now, authority_tally *out, tarry_diagnostic *diagnostic)
{
    char name[CREDENTIAL_NAME_SIZE];
    authority_state state;
    X509 **good = NULL;
    identity_name(identity, name);
    int error = authority_open(directory, true, &state, diagnostic);
    if (error != TARRY_OK)
        goto close;
    good = memory_allocate(NULL, (size_t)sk_X509_num(state.issued) + 1, sizeof(X509 *));
    if (good == NULL) {
        error = diagnose_no_memory(diagnostic, directory);
        goto close;
    }
    tally count = count_issued(&state, identity, good);
    size_t wanted = count.good;
    if (serial != NULL)
        keep_serial(serial, good, &wanted);
    error = wanted > 0 ? revoke_all(directory, &state, good, wanted, now, diagnostic)
                       : refuse_to_revoke(directory, &state, name, serial, count, diagnostic);
    if (error == TARRY_OK)
        *out = (authority_tally){wanted, count.good - wanted};
close:
    memory_release(NULL, good);
    authority_close(&state);
    return error;
}

static int compare_members(const void *one, const void *other)
{
    const authority_member *a = one, *b = other;
    if (a->identity.role != b->identity.role)
        return a->identity.role < b->identity.role ? -1 : 1;
    if (a->identity.worker != b->identity.worker)
        return a->identity.worker < b->identity.worker ? -1 : 1;
    if (a->expiry != b->expiry)
        return a->expiry < b->expiry ? -1 : 1;
    return strcmp(a->serial, b->serial);
}

static int describe(const authority_state *state, X509 *certificate, authority_member *out)
{
    struct tm expiry;
    if (identity_of_certificate(certificate, &out->identity) != TARRY_OK ||
        ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &expiry) != 1)
        return TARRY_ERROR_FORMAT;
    authority_serial(certificate, out->serial);
    credential_fingerprint(certificate, out->fingerprint);
    out->expiry = (int64_t)timegm(&expiry);
    out->revoked = is_revoked(state, certificate);
    return TARRY_OK;
}

int authority_list(const char *directory, const tarry_allocator *allocator, authority_member **out,
                   size_t *count, tarry_diagnostic *diagnostic)
{
    authority_state state;
    authority_member *members = NULL;
    int error = authority_open(directory, false, &state, diagnostic);
    if (error != TARRY_OK)
        goto close;
    size_t found = (size_t)sk_X509_num(state.issued);
    members = memory_allocate(allocator, found, sizeof(*members));
    if (members == NULL) {
        error = diagnose_no_memory(diagnostic, directory);
        goto close;
    }
    for (size_t i = 0; error == TARRY_OK && i < found; i++) {
        error = describe(&state, sk_X509_value(state.issued, (int)i), &members[i]);
        if (error != TARRY_OK)
            diagnose(diagnostic, error, "%s/issued: a certificate of none of Tarry's members",
                     directory);
    }
    if (error != TARRY_OK) {
        memory_release(allocator, members);
        goto close;
    }
    qsort(members, found, sizeof(*members), compare_members);
    *out = members;
    *count = found;
close:
    authority_close(&state);
    return error;
}
