/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for both sides of a connection, for members whose own are for one. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "pki/authority.h"
#include "pki/authority_files.h"
#include "runtime/tcp/trust/pem.h"

static bool is_good(const authority_state *state, X509 *certificate, int64_t now)
{
    X509_REVOKED *entry;
    time_t moment = (time_t)now;
    return X509_CRL_get0_by_cert(state->revoked, &entry, certificate) != 1 &&
           X509_cmp_time(X509_get0_notAfter(certificate), &moment) > 0;
}

static bool is_same_key(const X509 *one, const X509 *other)
{
    return EVP_PKEY_eq(X509_get0_pubkey(one), X509_get0_pubkey(other)) == 1;
}

/* Whether it is good, for one side alone, and there is none for its key that is for both. */
static bool is_due(const authority_state *state, X509 *certificate, int64_t now)
{
    credential_identity identity;
    if (!is_good(state, certificate, now) || identity_is_for_both(certificate) ||
        identity_of_certificate(certificate, &identity) != TARRY_OK ||
        identity.role == CREDENTIAL_VIEWER)
        return false;
    for (int i = 0; i < sk_X509_num(state->issued); i++) {
        X509 *other = sk_X509_value(state->issued, i);
        if (identity_is_for_both(other) && is_same_key(other, certificate) &&
            is_good(state, other, now))
            return false;
    }
    return true;
}

/* The member's cert.pem in the directory if it is of this key; else "". */
static int find_place(const char *directory, credential_identity identity, X509 *certificate,
                      char path[PATH_MAX], tarry_diagnostic *diagnostic)
{
    char folder[PATH_MAX], name[CREDENTIAL_NAME_SIZE];
    X509 *there = NULL;
    identity_name(identity, name);
    int error = authority_path(folder, directory, name, diagnostic);
    if (error == TARRY_OK)
        error = authority_path(path, folder, "cert.pem", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (access(path, F_OK) == 0)
        error = pem_read_certificate(path, &there, diagnostic);
    if (error == TARRY_OK && (there == NULL || !is_same_key(there, certificate)))
        path[0] = '\0';
    X509_free(there);
    return error;
}

static int renew(const char *directory, const authority_state *state, X509 *before, int64_t now,
                 authority_renewed *out, tarry_diagnostic *diagnostic)
{
    char place[PATH_MAX], issued[PATH_MAX], file[AUTHORITY_SERIAL_SIZE + sizeof("issued/.pem")];
    char serial[AUTHORITY_SERIAL_SIZE];
    X509 *made = NULL;
    int error = identity_of_certificate(before, &out->identity);
    if (error == TARRY_OK)
        error = find_place(directory, out->identity, before, place, diagnostic);
    if (error == TARRY_OK)
        error = issue_renewal(&state->signer, before, now, &made, diagnostic);
    if (error != TARRY_OK)
        return error;
    authority_serial(made, serial);
    snprintf(file, sizeof(file), "issued/%s.pem", serial);
    error = authority_path(issued, directory, file, diagnostic);
    if (error == TARRY_OK)
        error = pem_create_certificate(issued, made, diagnostic);
    if (error == TARRY_OK && place[0] != '\0')
        error = pem_replace_certificate(place, made, diagnostic);
    X509_free(made);
    snprintf(out->path, sizeof(out->path), "%s", place[0] != '\0' ? place : issued);
    return error;
}

int authority_renew(const char *directory, int64_t now, const tarry_allocator *allocator,
                    authority_renewed **out, size_t *count, tarry_diagnostic *diagnostic)
{
    authority_state state;
    authority_renewed *made = NULL;
    size_t due = 0, done = 0;
    int error = authority_open(directory, true, &state, diagnostic);
    if (error != TARRY_OK)
        goto close;
    int issued = sk_X509_num(state.issued);
    for (int i = 0; i < issued; i++)
        due += is_due(&state, sk_X509_value(state.issued, i), now);
    made = memory_allocate(allocator, due, sizeof(*made));
    if (made == NULL) {
        error = diagnose_no_memory(diagnostic, directory);
        goto close;
    }
    for (int i = 0; error == TARRY_OK && i < issued; i++) {
        X509 *before = sk_X509_value(state.issued, i);
        if (is_due(&state, before, now))
            error = renew(directory, &state, before, now, &made[done++], diagnostic);
    }
    if (error == TARRY_OK) {
        *out = made;
        *count = done;
    } else {
        memory_release(allocator, made);
    }
close:
    authority_close(&state);
    return error;
}
