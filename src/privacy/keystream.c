/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/keystream.h"

#include <assert.h>
#include <math.h>
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

/* ---- which samples are in a batch ---- */

enum { SAMPLER_PIECE = 256 };

/* As 64 bits below rate 2^64, rounded down: no sample is drawn more often than the rate says. */
static bool is_in(double rate, uint64_t bits)
{
    return rate >= 1 || bits < (uint64_t)ldexp(rate, 64);
}

int sampler_draw(const sampler *of, uint64_t round, uint64_t first, size_t count, size_t *samples,
                 size_t *drawn)
{
    uint64_t bits[SAMPLER_PIECE];
    size_t found = 0;
    assert(of->rate >= 0 && of->rate <= 1);
    for (size_t done = 0; done < count;) {
        const size_t piece = count - done < SAMPLER_PIECE ? count - done : SAMPLER_PIECE;
        if (keystream_read(of->key, round, first + done, bits, piece) != 0)
            return -1;
        for (size_t i = 0; i < piece; i++)
            if (is_in(of->rate, bits[i]))
                samples[found++] = (size_t)first + done + i;
        done += piece;
    }
    *drawn = found;
    return 0;
}

/* ---- noise ---- */

enum { NOISE_PIECE = 512, GRID_BITS = 8 };

/* Box and Muller's: two numbers from two, with a radius of 64 bits, so that tails reach 9.5. */
static void normal_pair(const uint64_t bits[2], double pair[2])
{
    const double turn = 6.283185307179586;
    double radius = sqrt(-2 * log(((double)bits[0] + 0.5) * 0x1p-64));
    double angle = turn * ((double)(bits[1] >> 11) * 0x1p-53);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

double noise_grid(double deviation)
{
    int exponent;
    frexp(deviation, &exponent);
    return ldexp(1, exponent - 1 - GRID_BITS);
}

int noise_add(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t release, double deviation,
              float *numbers, size_t count)
{
    const double grid = noise_grid(deviation), cells = 1 / grid;
    uint64_t bits[NOISE_PIECE];
    for (size_t done = 0; done < count; done += NOISE_PIECE) {
        const size_t piece = count - done < NOISE_PIECE ? count - done : NOISE_PIECE;
        if (keystream_read(key, release, done, bits, piece + piece % 2) != 0)
            return -1;
        for (size_t i = 0; i < piece; i += 2) {
            double pair[2];
            normal_pair(bits + i, pair);
            for (size_t k = i; k < piece && k < i + 2; k++)
                numbers[done + k] =
                    (float)(grid * rint((numbers[done + k] + deviation * pair[k - i]) * cells));
        }
    }
    return 0;
}
