/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>

#include "base/bytes.h"
#include "privacy/keystream.h"
#include "test.h"

enum { NUMBERS = 9000 };

/* The obvious way: each block of the counter by itself. */
static uint64_t oracle(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t stream, uint64_t number)
{
    uint8_t block[16], out[32];
    int written;
    for (int i = 0; i < 8; i++) {
        block[7 - i] = (uint8_t)(stream >> 8 * i);
        block[15 - i] = (uint8_t)(number / 2 >> 8 * i);
    }
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    assert_non_null(cipher);
    assert_int_equal(EVP_EncryptInit_ex(cipher, EVP_aes_256_ecb(), NULL, key, NULL), 1);
    assert_int_equal(EVP_EncryptUpdate(cipher, out, &written, block, 16), 1);
    EVP_CIPHER_CTX_free(cipher);
    return bytes_get(out + number % 2 * 8, 8);
}

TEST(any_number_can_be_had_by_itself)
{
    privacy_keys keys;
    uint64_t all[NUMBERS], some[NUMBERS];
    assert_int_equal(privacy_keys_of_seed(1, &keys), 0);
    assert_int_equal(keystream_read(keys.draws, 77, 0, all, NUMBERS), 0);
    for (size_t i = 0; i < NUMBERS; i += 613)
        assert_true(all[i] == oracle(keys.draws, 77, i));
    for (size_t first = 0; first < 7; first++) {
        assert_int_equal(keystream_read(keys.draws, 77, first * 811, some, 5 + first * 400), 0);
        assert_memory_equal(some, all + first * 811, (5 + first * 400) * sizeof(*some));
    }
    assert_int_equal(keystream_read(keys.draws, UINT64_MAX, UINT64_MAX / 2, some, 3), 0);
    assert_true(some[2] == oracle(keys.draws, UINT64_MAX, UINT64_MAX / 2 + 2));
}

TEST(keys_and_streams_have_nothing_in_common)
{
    privacy_keys one, other;
    uint64_t numbers[4][100];
    assert_int_equal(privacy_keys_of_seed(1, &one), 0);
    assert_int_equal(privacy_keys_of_seed(2, &other), 0);
    assert_int_equal(keystream_read(one.draws, 1, 0, numbers[0], 100), 0);
    assert_int_equal(keystream_read(one.noise, 1, 0, numbers[1], 100), 0);
    assert_int_equal(keystream_read(other.draws, 1, 0, numbers[2], 100), 0);
    assert_int_equal(keystream_read(one.draws, 2, 0, numbers[3], 100), 0);
    for (size_t i = 0; i < 400; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(numbers[i / 100][i % 100] != numbers[k / 100][k % 100]);
}
