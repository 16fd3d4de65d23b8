/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/keystream.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"

enum { BLOCK_BYTES = 16, BLOCK_NUMBERS = 2, PIECE_NUMBERS = 4096 };

static int key_of_seed(const char *purpose, uint64_t seed, uint8_t key[KEYSTREAM_KEY_BYTES])
{
    uint8_t text[64] = {0};
    size_t length = strlen(purpose);
    memcpy(text, purpose, length);
    bytes_put(text + length, seed, 8);
    return digest_of_bytes(text, length + 8, key);
}

int privacy_keys_of_seed(uint64_t seed, privacy_keys *keys)
{
    return key_of_seed("tarry privacy: draws ", seed, keys->draws) |
           key_of_seed("tarry privacy: noise ", seed, keys->noise);
}

/* The counter's upper half is the stream, the lower one counts blocks. */
static void put_counter(uint64_t stream, uint64_t block, uint8_t counter[BLOCK_BYTES])
{
    for (int i = 0; i < 8; i++) {
        counter[i] = (uint8_t)(stream >> (56 - 8 * i));
        counter[8 + i] = (uint8_t)(block >> (56 - 8 * i));
    }
}

/* Appends as many bytes of the stream. */
static bool encrypt_zeros(EVP_CIPHER_CTX *cipher, uint8_t *bytes, int size)
{
    int written;
    memset(bytes, 0, (size_t)size);
    return EVP_EncryptUpdate(cipher, bytes, &written, bytes, size) == 1 && written == size;
}

int keystream_read(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t stream, uint64_t first,
                   uint64_t *numbers, size_t count)
{
    uint8_t counter[BLOCK_BYTES], skipped[sizeof(uint64_t)];
    put_counter(stream, first / BLOCK_NUMBERS, counter);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    bool good =
        cipher != NULL && EVP_EncryptInit_ex(cipher, EVP_aes_256_ctr(), NULL, key, counter) == 1;
    if (good && first % BLOCK_NUMBERS != 0)
        good = encrypt_zeros(cipher, skipped, sizeof(skipped));
    for (size_t done = 0; good && done < count;) {
        const size_t piece = count - done < PIECE_NUMBERS ? count - done : PIECE_NUMBERS;
        uint8_t *bytes = (uint8_t *)(numbers + done);
        good = encrypt_zeros(cipher, bytes, (int)(piece * sizeof(*numbers)));
        for (size_t i = 0; good && i < piece; i++)
            numbers[done + i] = bytes_get(bytes + i * sizeof(*numbers), 8);
        done += piece;
    }
    EVP_CIPHER_CTX_free(cipher);
    return good ? 0 : -1;
}
