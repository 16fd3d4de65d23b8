/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/x509v3.h>

#include "pki/authority.h"
#include "runtime/tcp/trust/credential.h"
#include "test.h"

static const int64_t NOW = 1800000000;

TEST(a_name_is_read_as_it_is_written)
{
    static const struct {
        const char *name;
        credential_identity identity;
    } cases[] = {
        {"server", {.role = CREDENTIAL_SERVER}},
        {"viewer", {.role = CREDENTIAL_VIEWER}},
        {"worker", {.role = CREDENTIAL_WORKER, .worker = CREDENTIAL_ANY_ID}},
        {"worker-0", {.role = CREDENTIAL_WORKER, .worker = 0}},
        {"worker-10", {.role = CREDENTIAL_WORKER, .worker = 10}},
        {"worker-999999", {.role = CREDENTIAL_WORKER, .worker = CREDENTIAL_IDS - 1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        credential_identity read;
        char name[CREDENTIAL_NAME_SIZE];
        assert_ok(identity_parse(cases[i].name, &read));
        assert_int_equal(read.role, cases[i].identity.role);
        assert_int_equal(read.worker, cases[i].identity.worker);
        identity_name(read, name);
        assert_string_equal(name, cases[i].name);
    }
}

TEST(any_other_name_is_refused)
{
    static const char *const names[] = {
        "",          "Server",    "server ",   "workers",   "worker-",        "worker-01",
        "worker--1", "worker-+1", "worker-1 ", "worker-1a", "worker-1000000", "worker-4294967295",
        "viewer-1",  "server-0"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        credential_identity read = {.worker = 77};
        assert_int_equal(identity_parse(names[i], &read), TARRY_ERROR_FORMAT);
        assert_int_equal(read.worker, 77);
    }
}

TEST(a_certificate_states_who_it_was_made_for)
{
    issue_signer signer;
    EVP_PKEY *key;
    assert_ok(issue_authority(NOW, &signer, NULL));
    assert_ok(issue_key(&key, NULL));
    const credential_identity all[] = {
        {.role = CREDENTIAL_SERVER},
        {.role = CREDENTIAL_VIEWER},
        {.role = CREDENTIAL_WORKER, .worker = CREDENTIAL_ANY_ID},
        {.role = CREDENTIAL_WORKER, .worker = 12},
    };
    credential_identity read;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        X509 *certificate;
        assert_ok(issue_certificate(&signer, key, all[i], NULL, 0, NOW, &certificate, NULL));
        assert_ok(identity_of_certificate(certificate, &read));
        assert_int_equal(read.role, all[i].role);
        assert_int_equal(read.worker, all[i].worker);
        X509_free(certificate);
    }
    assert_int_equal(identity_of_certificate(signer.certificate, &read), TARRY_ERROR_FORMAT);
    EVP_PKEY_free(key);
    issue_signer_clear(&signer);
}

/* A second common name, a NUL inside one, and a key usage that is missing or another's. */
TEST(a_certificate_must_state_one_name_and_the_right_usage)
{
    issue_signer signer;
    credential_identity read;
    X509 *certificate;
    assert_ok(issue_authority(NOW, &signer, NULL));
    const credential_identity server = {.role = CREDENTIAL_SERVER};
    for (int fault = 0; fault < 5; fault++) {
        static const unsigned char second[] = "viewer", with_nul[] = "worker\0-1";
        assert_ok(issue_certificate(&signer, signer.key, server, NULL, 0, NOW, &certificate, NULL));
        X509_NAME *subject = X509_get_subject_name(certificate);
        int usage = X509_get_ext_by_NID(certificate, NID_ext_key_usage, -1);
        if (fault == 0) {
            assert_int_equal(X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                                        second, -1, -1, 0),
                             1);
        } else if (fault >= 3) {
            X509_EXTENSION_free(X509_delete_ext(certificate, usage));
            X509_EXTENSION *half = X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, "serverAuth");
            if (fault == 4) /* members accept connections and make them */
                assert_int_equal(X509_add_ext(certificate, half, -1), 1);
            X509_EXTENSION_free(half);
        } else {
            X509_NAME_ENTRY_free(X509_NAME_delete_entry(subject, 0));
            /* worker NUL -1 is no name; a viewer is no server */
            assert_int_equal(X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                                        fault == 1 ? with_nul : second,
                                                        fault == 1 ? 9 : -1, -1, 0),
                             1);
        }
        /* The usage is read once and kept: only a copy sees the change. */
        X509 *changed = X509_dup(certificate);
        assert_int_equal(identity_of_certificate(changed, &read), TARRY_ERROR_FORMAT);
        X509_free(changed);
        X509_free(certificate);
    }
    issue_signer_clear(&signer);
}
