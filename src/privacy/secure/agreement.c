/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/agreement.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdbool.h>
#include <string.h>
#include <tarry/error.h>

#include "base/bytes.h"

static const char label[] = "tarry secure sums: mask keys 2";

struct agreement {
    EVP_PKEY *pair;
    EVP_KDF *derivation;
    uint8_t public_key[AGREEMENT_KEY_BYTES];
};

/* Takes the pair, also on failure. */
static agreement *agreement_of(EVP_PKEY *pair)
{
    agreement *self = OPENSSL_zalloc(sizeof(*self));
    if (self == NULL) {
        EVP_PKEY_free(pair);
        return NULL;
    }
    size_t size = sizeof(self->public_key);
    self->pair = pair;
    self->derivation = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    if (pair == NULL || self->derivation == NULL ||
        EVP_PKEY_get_raw_public_key(pair, self->public_key, &size) != 1 ||
        size != sizeof(self->public_key)) {
        agreement_free(self);
        return NULL;
    }
    return self;
}

agreement *agreement_create(void)
{
    return agreement_of(EVP_PKEY_Q_keygen(NULL, NULL, "X25519"));
}

agreement *agreement_of_seed(const uint8_t seed[AGREEMENT_KEY_BYTES])
{
    return agreement_of(
        EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, seed, AGREEMENT_KEY_BYTES));
}

void agreement_free(agreement *self)
{
    if (self == NULL)
        return;
    EVP_PKEY_free(self->pair);
    EVP_KDF_free(self->derivation);
    OPENSSL_clear_free(self, sizeof(*self));
}

const uint8_t *agreement_public_key(const agreement *self)
{
    return self->public_key;
}

/* One bit, 0 if all bytes are; without a branch on any. */
static bool any_bit(const uint8_t *bytes, size_t count)
{
    unsigned any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any != 0;
}

int agreement_secret(const agreement *self, const uint8_t other[AGREEMENT_KEY_BYTES],
                     uint8_t secret[AGREEMENT_KEY_BYTES])
{
    int error = TARRY_ERROR_NO_MEMORY;
    uint8_t made[AGREEMENT_KEY_BYTES] = {0};
    size_t size = sizeof(made);
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, other, AGREEMENT_KEY_BYTES);
    EVP_PKEY_CTX *context =
        peer == NULL ? NULL : EVP_PKEY_CTX_new_from_pkey(NULL, self->pair, NULL);
    if (context == NULL || EVP_PKEY_derive_init(context) != 1 ||
        EVP_PKEY_derive_set_peer(context, peer) != 1)
        goto done;
    /* OpenSSL refuses a result of zeros itself. */
    error = TARRY_ERROR_ARGUMENT;
    if (EVP_PKEY_derive(context, made, &size) != 1 || size != sizeof(made) ||
        !any_bit(made, sizeof(made)))
        goto done;
    memcpy(secret, made, sizeof(made));
    error = TARRY_OK;
done:
    OPENSSL_cleanse(made, sizeof(made));
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    return error;
}

/* HKDF without a salt: the secret is of one curve, and all that the key is for is in `info`. */
static int derive(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                  const uint8_t *info, size_t info_size, uint8_t *out, size_t size)
{
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(self->derivation);
    if (context == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          AGREEMENT_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info, info_size),
        OSSL_PARAM_construct_end(),
    };
    int good = EVP_KDF_derive(context, out, size, parameters);
    EVP_KDF_CTX_free(context);
    return good == 1 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int agreement_make_mask_keys(const agreement *self, const uint8_t secret[AGREEMENT_KEY_BYTES],
                             agreement_member lower, agreement_member higher,
                             const uint8_t kappa[32], agreement_mask_keys *keys)
{
    uint8_t made[2 * MASK_KEY_BYTES];
    uint8_t info[sizeof(label) + 2 * (4 + AGREEMENT_KEY_BYTES) + 32], *at = info;
    memcpy(at, label, sizeof(label));
    at = bytes_put(at + sizeof(label), lower.id, 4);
    memcpy(at, lower.key, AGREEMENT_KEY_BYTES);
    at = bytes_put(at + AGREEMENT_KEY_BYTES, higher.id, 4);
    memcpy(at, higher.key, AGREEMENT_KEY_BYTES);
    memcpy(at + AGREEMENT_KEY_BYTES, kappa, 32);
    int error = derive(self, secret, info, sizeof(info), made, sizeof(made));
    if (error == TARRY_OK) {
        memcpy(keys->numbers, made, MASK_KEY_BYTES);
        memcpy(keys->counts, made + MASK_KEY_BYTES, MASK_KEY_BYTES);
    }
    OPENSSL_cleanse(made, sizeof(made));
    return error;
}
