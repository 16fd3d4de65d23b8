/* SPDX-License-Identifier: Apache-2.0 */
#include "aged_member.h"

#include <stdbool.h>
#include <stdio.h>

#include <openssl/x509v3.h>

#include "pki/authority.h"
#include "runtime/tcp/trust/private_file.h"
#include "test.h"

enum { PATH = 400 };

void age_member(const char *directory, const char *name, const char *usage)
{
    char path[PATH], issued[PATH], serial[AUTHORITY_SERIAL_SIZE];
    X509 *certificate;
    EVP_PKEY *key;
    snprintf(path, sizeof(path), "%s/ca-key.pem", directory);
    assert_ok(pem_read_key(path, &key, NULL));
    snprintf(path, sizeof(path), "%s/%s/cert.pem", directory, name);
    assert_ok(pem_read_certificate(path, &certificate, NULL));
    int at = X509_get_ext_by_NID(certificate, NID_ext_key_usage, -1);
    X509_EXTENSION_free(X509_delete_ext(certificate, at));
    X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, usage);
    assert_int_equal(X509_add_ext(certificate, made, -1), 1);
    X509_EXTENSION_free(made);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    authority_serial(certificate, serial);
    snprintf(issued, sizeof(issued), "%s/issued/%s.pem", directory, serial);
    assert_ok(pem_write_certificate(issued, certificate, private_file_replace, NULL));
    assert_ok(pem_write_certificate(path, certificate, private_file_replace, NULL));
    X509_free(certificate);
    EVP_PKEY_free(key);
}
