/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/issue.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/openssl_error.h"

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

/* The hosts that a certificate has beside CREDENTIAL_SERVER_NAME, as text; gives back how many. */
static size_t read_hosts(X509 *certificate, char hosts[ISSUE_HOSTS][ISSUE_HOST_SIZE])
{
    size_t count = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && count < ISSUE_HOSTS; i++) {
        int kind;
        const ASN1_STRING *text = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);
        const unsigned char *bytes = ASN1_STRING_get0_data(text);
        int size = ASN1_STRING_length(text);
        char *host = hosts[count];
        if (kind == GEN_IPADD)
            count += inet_ntop(size == sizeof(struct in_addr) ? AF_INET : AF_INET6, bytes, host,
                               ISSUE_HOST_SIZE) != NULL;
        else if (kind == GEN_DNS && size < ISSUE_HOST_SIZE) {
            snprintf(host, ISSUE_HOST_SIZE, "%.*s", size, (const char *)bytes);
            count += strcmp(host, CREDENTIAL_SERVER_NAME) != 0;
        }
    }
    GENERAL_NAMES_free(names);
    return count;
}

int issue_renewal(const issue_signer *signer, X509 *before, int64_t now, X509 **out,
                  tarry_diagnostic *diagnostic)
{
    char hosts[ISSUE_HOSTS][ISSUE_HOST_SIZE];
    const char *names[ISSUE_HOSTS];
    credential_identity identity;
    EVP_PKEY *key = X509_get0_pubkey(before);
    if (key == NULL || identity_of_certificate(before, &identity) != TARRY_OK)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "not the certificate of a member");
    size_t count = read_hosts(before, hosts);
    for (size_t i = 0; i < count; i++)
        names[i] = hosts[i];
    return issue_certificate(signer, key, identity, names, count, now, out, diagnostic);
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

int issue_list(const issue_signer *signer, const X509_CRL *previous, X509 *const *certificates,
               size_t count, int64_t now, X509_CRL **out, tarry_diagnostic *diagnostic)
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
