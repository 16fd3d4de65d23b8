/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"
#include "hex.h"
#include "privacy/secure/secure_member.h"
#include "test.h"

OWNED_BY(agreement, agreement_free)

/* RFC 7748, section 6.1: private and public keys of two, and what they agree on. */
static const char private_a[] = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
static const char public_a[] = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
static const char private_b[] = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
static const char public_b[] = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
static const char shared[] = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";

static agreement *of_hex(const char *text)
{
    uint8_t seed[32];
    read_hex(text, seed);
    agreement *pair = agreement_of_seed(seed);
    assert_non_null(pair);
    return pair;
}

TEST(keys_and_secret_are_those_of_the_rfc)
{
    OWNED(agreement) a = of_hex(private_a), b = of_hex(private_b);
    uint8_t wanted[32], secret[32];
    read_hex(public_a, wanted);
    assert_memory_equal(agreement_public_key(a), wanted, 32);
    read_hex(public_b, wanted);
    assert_memory_equal(agreement_public_key(b), wanted, 32);
    read_hex(shared, wanted);
    assert_ok(agreement_secret(a, agreement_public_key(b), secret));
    assert_memory_equal(secret, wanted, 32);
    memset(secret, 0, sizeof(secret));
    assert_ok(agreement_secret(b, agreement_public_key(a), secret));
    assert_memory_equal(secret, wanted, 32);
}

/* The public keys of small order (a server may hand one out): whatever the private key, the secret
 * is zero. */
TEST(keys_of_small_order_are_refused)
{
    static const char *const small[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    };
    OWNED(agreement) pair = agreement_create();
    assert_non_null(pair);
    for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++) {
        uint8_t key[32], secret[32];
        read_hex(small[i], key);
        memset(secret, 7, sizeof(secret));
        assert_int_equal(agreement_secret(pair, key, secret), TARRY_ERROR_ARGUMENT);
        for (size_t k = 0; k < sizeof(secret); k++)
            assert_int_equal(secret[k], 7);
    }
}

TEST(new_pairs_differ_and_agree)
{
    OWNED(agreement) a = agreement_create(), b = agreement_create();
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_not_equal(agreement_public_key(a), agreement_public_key(b), 32);
    uint8_t one[32], other[32];
    assert_ok(agreement_secret(a, agreement_public_key(b), one));
    assert_ok(agreement_secret(b, agreement_public_key(a), other));
    assert_memory_equal(one, other, 32);
}

/* HKDF as RFC 5869 writes it down, out of HMAC. */
static void hkdf(const uint8_t *salt, size_t salt_size, const uint8_t *secret, size_t secret_size,
                 const uint8_t *info, size_t info_size, uint8_t *out, size_t size)
{
    uint8_t prk[32], block[32], text[32 + 256 + 1];
    const uint8_t zeros[32] = {0};
    HMAC(EVP_sha256(), salt_size == 0 ? zeros : salt, salt_size == 0 ? 32 : (int)salt_size, secret,
         secret_size, prk, NULL);
    size_t before = 0;
    for (uint8_t i = 1; size > 0; i++) {
        memcpy(text, block, before);
        memcpy(text + before, info, info_size);
        text[before + info_size] = i;
        HMAC(EVP_sha256(), prk, 32, text, before + info_size + 1, block, NULL);
        before = sizeof(block);
        const size_t part = size < before ? size : before;
        memcpy(out, block, part);
        out += part;
        size -= part;
    }
}

/* RFC 5869, A.1 and A.3: holds the oracle to its source. */
TEST(the_oracle_is_the_one_of_the_rfc)
{
    uint8_t secret[22], salt[13], info[10], wanted[42], out[42];
    memset(secret, 0x0b, sizeof(secret));
    for (size_t i = 0; i < sizeof(salt); i++)
        salt[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(info); i++)
        info[i] = (uint8_t)(0xf0 + i);
    read_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
             wanted);
    hkdf(salt, sizeof(salt), secret, sizeof(secret), info, sizeof(info), out, sizeof(out));
    assert_memory_equal(out, wanted, sizeof(out));
    read_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
             wanted);
    hkdf(NULL, 0, secret, sizeof(secret), info, 0, out, sizeof(out));
    assert_memory_equal(out, wanted, sizeof(out));
}

TEST(mask_keys_are_hkdf_of_all_that_they_are_for)
{
    OWNED(agreement) a = of_hex(private_a), b = of_hex(private_b);
    const agreement_member lower = {3, agreement_public_key(b)};
    const agreement_member higher = {70000, agreement_public_key(a)};
    uint8_t secret[32], kappa[32], wanted[64];
    agreement_mask_keys keys;
    assert_ok(agreement_secret(a, lower.key, secret));
    for (size_t i = 0; i < sizeof(kappa); i++)
        kappa[i] = (uint8_t)(200 - i);
    uint8_t info[256] = "tarry secure sums: mask keys 2";
    size_t at = strlen((char *)info) + 1;
    bytes_put(info + at, 3, 4);
    memcpy(info + at + 4, lower.key, 32);
    bytes_put(info + at + 36, 70000, 4);
    memcpy(info + at + 40, higher.key, 32);
    memcpy(info + at + 72, kappa, 32);
    hkdf(NULL, 0, secret, sizeof(secret), info, at + 104, wanted, sizeof(wanted));
    assert_ok(agreement_make_mask_keys(a, secret, lower, higher, kappa, &keys));
    assert_memory_equal(keys.numbers, wanted, 32);
    assert_memory_equal(keys.counts, wanted + 32, 32);
    assert_ok(agreement_make_mask_keys(b, secret, lower, higher, kappa, &keys));
    assert_memory_equal(keys.numbers, wanted, 32);
    assert_memory_equal(keys.counts, wanted + 32, 32);
    for (size_t i = 0; i < sizeof(kappa); i++) {
        kappa[i] ^= 1;
        assert_ok(agreement_make_mask_keys(b, secret, lower, higher, kappa, &keys));
        assert_memory_not_equal(keys.numbers, wanted, 32);
        assert_memory_not_equal(keys.counts, wanted + 32, 32);
        kappa[i] ^= 1;
    }
}
