/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/authority.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "pki/authority_files.h"
#include "runtime/tcp/trust/pem.h"

static int diagnose_file(tarry_diagnostic *diagnostic, const char *path)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(errno));
}

/* A member's key, certificate and files, in a new folder. */
static int make_member(const char *directory, const char *folder, const authority_state *state,
                       credential_identity identity, authority_hosts hosts, int64_t now,
                       tarry_diagnostic *diagnostic)
{
    EVP_PKEY *key;
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
    int error = authority_path(folder, directory, name, diagnostic);
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
        error = authority_path(path, directory, "ca.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_certificate(path, state->signer.certificate, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, directory, "ca-key.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_key(path, state->signer.key, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, directory, "revoked.pem", diagnostic);
    if (error == TARRY_OK)
        error = pem_create_list(path, state->revoked, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, directory, "issued", diagnostic);
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
        return diagnose_file(diagnostic, directory);
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
        return diagnose_file(diagnostic, directory);
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
        return diagnose_file(diagnostic, directory);
    error = make_cluster(temporary, workers, hosts, now, stop, diagnostic);
    if (error == TARRY_OK)
        error = authority_sync(temporary, diagnostic);
    /* A rename never takes the place of a directory with anything in it. */
    if (error == TARRY_OK && rename(temporary, target) != 0)
        error = diagnose_file(diagnostic, directory);
    if (error != TARRY_OK)
        authority_remove(temporary);
    return error;
}

static bool is_revoked(const authority_state *state, X509 *certificate)
{
    X509_REVOKED *entry;
    return X509_CRL_get0_by_cert(state->revoked, &entry, certificate) == 1;
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
    int error = authority_path(temporary, directory, hidden, diagnostic);
    if (error != TARRY_OK)
        return error;
    authority_remove(temporary); /* what an interrupted run left */
    error = make_member(directory, temporary, state, identity, hosts, now, diagnostic);
    if (error == TARRY_OK)
        error = authority_sync(temporary, diagnostic);
    if (error == TARRY_OK) {
        authority_remove(folder);
        if (rename(temporary, folder) != 0)
            error = diagnose_file(diagnostic, folder);
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
    int error = authority_path(folder, directory, name, diagnostic);
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
    char folder[PATH_MAX], path[PATH_MAX];
    int error = authority_path(folder, directory, "server", diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "revoked.pem", diagnostic);
    if (error != TARRY_OK || access(folder, F_OK) != 0)
        return error;
    return pem_replace_list(path, list, diagnostic);
}

static int revoke_all(const char *directory, const authority_state *state, X509 *const *good,
                      size_t count, int64_t now, tarry_diagnostic *diagnostic)
{
    char path[PATH_MAX];
    X509_CRL *list;
    int error = authority_path(path, directory, "revoked.pem", diagnostic);
    if (error == TARRY_OK)
        error = issue_list(&state->signer, state->revoked, good, count, now, &list, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = pem_replace_list(path, list, diagnostic);
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
    out->one_sided = out->identity.role != CREDENTIAL_VIEWER && !identity_is_for_both(certificate);
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
