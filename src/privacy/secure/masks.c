/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/masks.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <tarry/error.h>

#include "privacy/secure/ring.h"

/* Masks of so many keys are made in one pass over the words. A piece of the words, of the stream
 * and the zeros stay in the processor's nearest cache together. */
enum { BLOCK_BYTES = 16, CIPHER_KEY_BYTES = 16, PIECE_BYTES = 2048, TOGETHER = 8, LINE_BYTES = 64 };

struct mask_cipher {
    EVP_CIPHER *algorithm;
    EVP_CIPHER_CTX *contexts[TOGETHER];
};

/* What is encrypted. */
static const _Alignas(LINE_BYTES) uint8_t zeros[PIECE_BYTES];

/* OpenSSL's objects take their own memory. */
mask_cipher *mask_cipher_create(void)
{
    mask_cipher *cipher = OPENSSL_zalloc(sizeof(*cipher));
    if (cipher == NULL)
        return NULL;
    cipher->algorithm = EVP_CIPHER_fetch(NULL, "AES-128-CTR", NULL);
    bool good = cipher->algorithm != NULL;
    for (size_t i = 0; i < TOGETHER && good; i++) {
        cipher->contexts[i] = EVP_CIPHER_CTX_new();
        good = cipher->contexts[i] != NULL &&
               EVP_EncryptInit_ex2(cipher->contexts[i], cipher->algorithm, NULL, NULL, NULL) == 1;
    }
    if (!good) {
        mask_cipher_free(cipher);
        return NULL;
    }
    return cipher;
}

void mask_cipher_free(mask_cipher *cipher)
{
    if (cipher == NULL)
        return;
    for (size_t i = 0; i < TOGETHER; i++)
        EVP_CIPHER_CTX_free(cipher->contexts[i]);
    EVP_CIPHER_free(cipher->algorithm);
    OPENSSL_clear_free(cipher, sizeof(*cipher));
}

/* Another key takes the place of each. */
void mask_cipher_forget(mask_cipher *cipher)
{
    for (size_t i = 0; cipher != NULL && i < TOGETHER; i++)
        EVP_EncryptInit_ex2(cipher->contexts[i], NULL, zeros, zeros, NULL);
}

/* The counter is a big-endian number of 128 bits, and wraps. */
static void counter_advance(uint8_t counter[BLOCK_BYTES], uint64_t blocks)
{
    unsigned carry = 0;
    for (int i = BLOCK_BYTES - 1; i >= 0; i--) {
        carry += counter[i] + (unsigned)(blocks & 0xff);
        counter[i] = (uint8_t)carry;
        carry >>= 8;
        blocks >>= 8;
    }
}

/* The next bytes of a stream, PIECE_BYTES at most. */
static bool next_bytes(EVP_CIPHER_CTX *context, uint8_t *bytes, size_t size)
{
    int written;
    return EVP_EncryptUpdate(context, bytes, &written, zeros, (int)size) == 1 &&
           written == (int)size;
}

/* The word `first` of the stream is the next. */
static bool begin_stream(EVP_CIPHER_CTX *context, const mask_stream *stream, const ring *of,
                         uint64_t first)
{
    const uint64_t per_block = BLOCK_BYTES * 8 / of->bits;
    uint8_t block[BLOCK_BYTES];
    memcpy(block, stream->key + CIPHER_KEY_BYTES, sizeof(block));
    counter_advance(block, first / per_block);
    bool good = EVP_EncryptInit_ex2(context, NULL, stream->key, block, NULL) == 1;
    const size_t skipped = ring_bytes(of, (size_t)(first % per_block));
    if (good && skipped > 0)
        good = next_bytes(context, block, skipped);
    OPENSSL_cleanse(block, sizeof(block));
    return good;
}

/* Memory is slower than the cipher: it brings the next piece, to the second cache, while this one
 * is masked. */
static void prefetch(const uint8_t *words, size_t size)
{
    for (size_t i = 0; i < size; i += LINE_BYTES)
        __builtin_prefetch(words + i, 0, 2);
}

/* Of streams that have begun. */
static bool apply(EVP_CIPHER_CTX *const *contexts, const mask_stream *streams, size_t stream_count,
                  const ring *of, const uint8_t *from, uint8_t *words, size_t bytes)
{
    _Alignas(LINE_BYTES) uint8_t masks[PIECE_BYTES];
    const ring_kernel *kernel = ring_kernel_best();
    bool good = true;
    while (bytes > 0 && good) {
        const size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        const size_t behind = bytes - piece;
        prefetch(words + piece, behind < PIECE_BYTES ? behind : PIECE_BYTES);
        if (from != words) {
            prefetch(from + piece, behind < PIECE_BYTES ? behind : PIECE_BYTES);
            memcpy(words, from, piece);
        }
        for (size_t i = 0; i < stream_count && good; i++) {
            good = next_bytes(contexts[i], masks, piece);
            if (good)
                kernel->sum(of->bits, words, masks, piece, streams[i].subtract);
        }
        from += piece;
        words += piece;
        bytes -= piece;
    }
    OPENSSL_cleanse(masks, sizeof(masks));
    return good;
}

int mask_apply(mask_cipher *cipher, const mask_stream *streams, size_t stream_count, const ring *of,
               uint64_t first, const void *from, void *words, size_t count)
{
    bool good = true;
    size_t done = 0;
    do {
        const size_t left = stream_count - done, some = left < TOGETHER ? left : TOGETHER;
        for (size_t i = 0; i < some && good; i++)
            good = begin_stream(cipher->contexts[i], &streams[done + i], of, first);
        good = good && apply(cipher->contexts, streams + done, some, of, done == 0 ? from : words,
                             words, ring_bytes(of, count));
        done += some;
    } while (done < stream_count && good);
    return good ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
