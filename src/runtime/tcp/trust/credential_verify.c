/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/credential_verify.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "base/diagnostic.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/openssl_error.h"

/* Whether somebody of that role connects to others, or accepts others. */
static bool is_on_side(credential_role role, bool accepts)
{
    return (role == CREDENTIAL_SERVER) == accepts;
}

int credential_verify_peer(int good, X509_STORE_CTX *context)
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

int credential_verify_member(int good, X509_STORE_CTX *context)
{
    if (good != 1 || X509_STORE_CTX_get_error_depth(context) != 0)
        return good;
    X509 *certificate = X509_STORE_CTX_get_current_cert(context);
    credential_identity peer;
    if (identity_of_certificate(certificate, &peer) == TARRY_OK &&
        identity_is_for_both(certificate))
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

X509_STORE *credential_store(X509 *authority, X509_CRL *revoked)
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

int credential_verify_client(X509_STORE *store, X509 *certificate,
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

int credential_verify_own(X509_STORE *store, X509 *certificate, const char *path,
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

int credential_verify_list(X509_CRL *revoked, X509 *authority, const char *path,
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
