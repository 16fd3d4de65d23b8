/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>

#include "base/random.h"
#include "hex.h"
#include "privacy/secure/masks.h"
#include "seed.h"
#include "test.h"

/* NIST SP 800-38A, F.5.1: AES-128 in counter mode. The keystream is cipher text xor plain text. */
static const char nist_key[] = "2b7e151628aed2a6abf7158809cf4f3cf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
static const char nist_plain[] = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                                 "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
static const char nist_cipher[] =
    "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
    "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee";

static const ring ring32 = {.bits = 32, .fraction = 0, .bound = 1};
static const ring ring64 = {.bits = 64, .fraction = 0, .bound = 1};

TEST(the_stream_is_the_one_of_nist)
{
    mask_cipher *cipher = mask_cipher_create();
    assert_non_null(cipher);
    mask_stream with = {.subtract = false};
    uint8_t plain[64], wanted[64], words[64];
    read_hex(nist_key, with.key);
    read_hex(nist_plain, plain);
    read_hex(nist_cipher, wanted);
    for (size_t i = 0; i < sizeof(wanted); i++)
        wanted[i] ^= plain[i];
    memset(words, 0, sizeof(words));
    assert_ok(mask_apply(cipher, &with, 1, &ring32, 0, words, words, 16));
    assert_memory_equal(words, wanted, sizeof(wanted));
    memset(words, 0, sizeof(words));
    assert_ok(mask_apply(cipher, &with, 1, &ring64, 0, words, words, 8));
    assert_memory_equal(words, wanted, sizeof(wanted));
    mask_cipher_free(cipher);
}

/* The block of a key's stream with the number `index`: the counter plus index, encrypted. */
static void plain_block(EVP_CIPHER_CTX *single, const uint8_t *key, uint64_t index,
                        uint8_t block[16])
{
    int written;
    memcpy(block, key + 16, 16);
    for (uint64_t carry = index, i = 16; i-- > 0; carry >>= 8) {
        carry += block[i];
        block[i] = (uint8_t)carry;
    }
    assert_int_equal(EVP_EncryptInit_ex(single, EVP_aes_128_ecb(), NULL, key, NULL), 1);
    assert_int_equal(EVP_EncryptUpdate(single, block, &written, block, 16), 1);
    assert_int_equal(written, 16);
}

/* words[i] +- the word first + i of each mask's stream, block by block and word by word. */
static void plain_apply(EVP_CIPHER_CTX *single, const mask_stream *masks, size_t mask_count,
                        const ring *of, uint64_t first, uint8_t *words, size_t count)
{
    const uint64_t per_block = 128 / of->bits;
    uint8_t block[16];
    for (size_t m = 0; m < mask_count; m++) {
        for (size_t i = 0; i < count; i++) {
            const uint64_t place = first + i;
            if (i == 0 || place % per_block == 0)
                plain_block(single, masks[m].key, place / per_block, block);
            const uint64_t word = ring_word(of, block, (size_t)(place % per_block));
            ring_count(of, words, i, masks[m].subtract ? 0 - word : word);
        }
    }
}

static void random_bytes(random_stream *stream, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)random_u64(stream);
}

static void draw_masks(random_stream *stream, mask_stream *masks, size_t count)
{
    for (size_t m = 0; m < count; m++) {
        masks[m].subtract = random_u64(stream) % 2 == 0;
        random_bytes(stream, masks[m].key, MASK_KEY_BYTES);
        /* Some counters wrap within the words, in their last 32 bits, or as a whole. */
        if (random_u64(stream) % 4 == 0)
            memset(masks[m].key + 28 - 12 * (random_u64(stream) % 2), 0xff, 4);
    }
}

TEST(all_masks_of_a_member_are_those_of_plain_blocks)
{
    enum { WORDS = 5000, MASKS = 40 };
    static uint8_t some[8 + 8 * WORDS], other[8 + 8 * WORDS], wanted[8 + 8 * WORDS];
    static mask_stream masks[MASKS];
    random_stream stream = random_stream_make(test_seed("masks", 2), RANDOM_TEST, 0, 0);
    mask_cipher *cipher = mask_cipher_create();
    EVP_CIPHER_CTX *single = EVP_CIPHER_CTX_new();
    assert_non_null(cipher);
    assert_non_null(single);
    for (int turn = 0; turn < 60; turn++) {
        const ring *of = turn % 2 == 0 ? &ring32 : &ring64;
        const size_t mask_count = random_u64(&stream) % (turn % 4 == 0 ? MASKS + 1 : 4);
        const size_t count = random_u64(&stream) % (turn % 3 == 0 ? WORDS + 1 : 70);
        const size_t at = random_u64(&stream) % 8;
        const uint64_t first = random_u64(&stream) >> (turn % 5 == 0 ? 4 : 40);
        draw_masks(&stream, masks, mask_count);
        random_bytes(&stream, some, sizeof(some));
        random_bytes(&stream, other, sizeof(other));
        const bool in_place = turn % 3 != 1;
        const uint8_t *from = in_place ? some + at : other + turn % 8;
        memcpy(wanted, some, sizeof(some));
        memcpy(wanted + at, from, ring_bytes(of, count));
        plain_apply(single, masks, mask_count, of, first, wanted + at, count);
        assert_ok(mask_apply(cipher, masks, mask_count, of, first, from, some + at, count));
        assert_memory_equal(some, wanted, sizeof(some));
        if (turn % 7 == 0)
            mask_cipher_forget(cipher);
    }
    EVP_CIPHER_CTX_free(single);
    mask_cipher_free(cipher);
}

TEST(what_is_subtracted_is_what_was_added)
{
    enum { WORDS = 9000, MASKS = 9 };
    static uint8_t some[1 + 8 * WORDS], old[1 + 8 * WORDS];
    static mask_stream masks[MASKS];
    random_stream stream = random_stream_make(test_seed("masks", 1), RANDOM_TEST, 0, 0);
    mask_cipher *cipher = mask_cipher_create();
    assert_non_null(cipher);
    for (int turn = 0; turn < 40; turn++) {
        const ring *of = turn % 2 == 0 ? &ring32 : &ring64;
        const uint64_t first = random_u64(&stream) >> 8;
        const size_t cut = random_u64(&stream) % (WORDS + 1);
        draw_masks(&stream, masks, MASKS);
        random_bytes(&stream, some, sizeof(some));
        memcpy(old, some, sizeof(some));
        assert_ok(mask_apply(cipher, masks, MASKS, of, first, some + 1, some + 1, WORDS));
        assert_memory_not_equal(some, old, sizeof(some));
        for (size_t m = 0; m < MASKS; m++)
            masks[m].subtract = !masks[m].subtract;
        /* In two pieces, the later one first. */
        assert_ok(mask_apply(cipher, masks, MASKS, of, first + cut, some + 1 + ring_bytes(of, cut),
                             some + 1 + ring_bytes(of, cut), WORDS - cut));
        assert_ok(mask_apply(cipher, masks, MASKS, of, first, some + 1, some + 1, cut));
        assert_memory_equal(some, old, sizeof(some));
    }
    mask_cipher_free(cipher);
}
