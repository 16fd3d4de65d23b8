/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/key_proof.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

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

int key_proof_sign(const credential *self, const key_claim *claim,
                   uint8_t signature[KEY_PROOF_MOST], size_t *size)
{
    uint8_t statement[STATEMENT_BYTES];
    size_t written = KEY_PROOF_MOST;
    write_statement(claim, statement);
    EVP_MD_CTX *signing = EVP_MD_CTX_new();
    bool good = signing != NULL &&
                EVP_DigestSignInit(signing, NULL, EVP_sha256(), NULL, credential_key(self)) == 1 &&
                EVP_DigestSign(signing, signature, &written, statement, sizeof(statement)) == 1;
    EVP_MD_CTX_free(signing);
    ERR_clear_error();
    if (!good)
        return TARRY_ERROR_SYSTEM;
    *size = written;
    return TARRY_OK;
}

static bool is_signed(X509 *certificate, const uint8_t *signature, size_t size,
                      const key_claim *claim)
{
    uint8_t statement[STATEMENT_BYTES];
    write_statement(claim, statement);
    EVP_PKEY *key = X509_get0_pubkey(certificate);
    EVP_MD_CTX *verifying = EVP_MD_CTX_new();
    bool good = verifying != NULL && key != NULL &&
                EVP_DigestVerifyInit(verifying, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestVerify(verifying, signature, size, statement, sizeof(statement)) == 1;
    EVP_MD_CTX_free(verifying);
    ERR_clear_error();
    return good;
}

int key_proof_verify(const credential *self, const uint8_t *certificate, size_t certificate_size,
                     const uint8_t *signature, size_t signature_size, const key_claim *claim,
                     uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES],
                     char text[CREDENTIAL_REFUSAL_SIZE])
{
    X509 *verified;
    credential_identity owner;
    int error = credential_verify_passed_on(self, certificate, certificate_size, &verified, text);
    if (error != TARRY_OK)
        return error;
    const char *fault = NULL;
    if (identity_of_certificate(verified, &owner) != TARRY_OK || owner.role != CREDENTIAL_WORKER ||
        owner.worker != claim->worker)
        fault = "its certificate is not that of this worker";
    else if (!is_signed(verified, signature, signature_size, claim))
        fault = "it is not signed by the key of its certificate";
    if (fault == NULL)
        credential_fingerprint(verified, fingerprint);
    else
        snprintf(text, CREDENTIAL_REFUSAL_SIZE, "%s", fault);
    X509_free(verified);
    return fault == NULL ? TARRY_OK : TARRY_ERROR_FORMAT;
}
