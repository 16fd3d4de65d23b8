/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/identity.h"

#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

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
    uint32_t usage = X509_get_extended_key_usage(certificate);
    uint32_t wanted = identity.role == CREDENTIAL_SERVER ? XKU_SSL_SERVER : XKU_SSL_CLIENT;
    bool both = identity.role != CREDENTIAL_VIEWER && usage == BOTH_USAGES;
    if (usage != wanted && !both) /* UINT32_MAX: it states none */
        return TARRY_ERROR_FORMAT;
    *out = identity;
    return TARRY_OK;
}

bool identity_is_for_both(X509 *certificate)
{
    return X509_get_extended_key_usage(certificate) == BOTH_USAGES;
}
