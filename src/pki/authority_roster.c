/* SPDX-License-Identifier: Apache-2.0 */
/* The roster of secure sums: which workers the authority lets take part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "pki/authority.h"
#include "pki/authority_files.h"
#include "runtime/tcp/trust/private_file.h"
#include "runtime/tcp/trust/roster_file.h"

static bool is_good(const authority_state *state, X509 *certificate, int64_t now)
{
    X509_REVOKED *entry;
    time_t moment = (time_t)now;
    return X509_CRL_get0_by_cert(state->revoked, &entry, certificate) != 1 &&
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
    int error = authority_path(folder, directory, name, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, ROSTER_FILE_NAME, diagnostic);
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
    int error = authority_path(path, directory, ROSTER_FILE_NAME, diagnostic);
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
    int error = authority_path(path, directory, ROSTER_FILE_NAME, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = authority_open(directory, false, &state, diagnostic);
    if (error == TARRY_OK)
        error = read_last(path, state.signer.certificate, out, diagnostic);
    authority_close(&state);
    return error;
}
