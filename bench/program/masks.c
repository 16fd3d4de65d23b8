/* SPDX-License-Identifier: Apache-2.0 */
#include "program/masks.h"

#include <float.h>
#include <openssl/evp.h>
#include <stdbool.h>

#include <tarry/error.h>

#include "base/digest.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "privacy/secure/ring.h"
#include "privacy/secure/secure_member.h"
#include "program/memory.h"

enum { AES_PIECE = 8192, AES_PIECES = 8192, KEYS = 200, CHUNKS = 100 };

typedef struct bench {
    const bench_masks_settings *settings;
    bench_memory numbers; /* d floats */
    bench_memory words;   /* 2 d floats' room: d words of 64 bits */
    bench_memory more;    /* the same */
    bench_memory other;   /* read to empty the caches */
    agreement **pairs;    /* of all members: neighbours + 1 */
    secure_member *member;
    mask_cipher *cipher;
    EVP_CIPHER_CTX *aes;
    uint8_t *zeros, *piece; /* AES_PIECE each */
    ring of;                /* of the present measurement */
    uint64_t round;
    bool failed;
    volatile float sink; /* so that no reading is left out */
} bench;

/* What is measured, and how much of it is done, in units of what the figure counts. */
typedef struct measurement {
    void (*run)(bench *b);
    double (*work)(const bench *b);
    size_t result; /* offset of the figure in bench_masks, or in bench_ring */
} measurement;

static const uint8_t some_key[MASK_KEY_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

static const mask_stream some_mask = {.key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}};

static void run_read(bench *b)
{
    b->sink = bench_read(b->numbers.vectors, b->settings->dimension);
}

static void run_aes(bench *b)
{
    int written;
    for (int i = 0; i < AES_PIECES; i++)
        b->failed |= EVP_EncryptUpdate(b->aes, b->piece, &written, b->zeros, AES_PIECE) != 1;
}

static void run_sha256(bench *b)
{
    uint8_t out[32];
    b->failed |= digest_of_bytes((const uint8_t *)b->numbers.vectors,
                                 b->settings->dimension * sizeof(float), out) != 0;
    b->sink = out[0];
}

static void run_pair(bench *b)
{
    for (int i = 0; i < KEYS; i++) {
        agreement *pair = agreement_create();
        b->failed |= pair == NULL;
        agreement_free(pair);
    }
}

static void run_secret(bench *b)
{
    uint8_t secret[AGREEMENT_KEY_BYTES];
    for (int i = 0; i < KEYS; i++)
        b->failed |=
            agreement_secret(b->pairs[0], agreement_public_key(b->pairs[1]), secret) != TARRY_OK;
}

static void run_key(bench *b)
{
    agreement_mask_keys keys;
    const agreement_member lower = {0, agreement_public_key(b->pairs[0])};
    const agreement_member higher = {1, agreement_public_key(b->pairs[1])};
    for (int i = 0; i < KEYS; i++)
        b->failed |= agreement_make_mask_keys(b->pairs[0], some_key, lower, higher, some_key,
                                              &keys) != TARRY_OK;
}

static void run_mask(bench *b)
{
    b->failed |= mask_apply(b->cipher, &some_mask, 1, &b->of, 0, b->words.vectors, b->words.vectors,
                            b->settings->dimension) != TARRY_OK;
}

static void run_member(bench *b)
{
    b->failed |= secure_member_mask_numbers(b->member, 0, b->words.vectors, b->words.vectors,
                                            b->settings->dimension) != TARRY_OK;
}

static void run_add(bench *b)
{
    b->sink = (float)ring_add(&b->of, b->numbers.vectors, b->settings->dimension, b->words.vectors);
}

static void run_reference(bench *b)
{
    const ring_scale scale = ring_scale_of(&b->of);
    b->sink = (float)(b->of.bits == 32 ? ring_reference.add32 : ring_reference.add64)(
        &scale, b->numbers.vectors, b->settings->dimension, b->words.vectors);
}

static void run_sum(bench *b)
{
    ring_sum(&b->of, b->more.vectors, b->settings->dimension, b->words.vectors);
}

static void run_numbers(bench *b)
{
    ring_read(&b->of, b->words.vectors, b->settings->dimension, b->more.vectors);
}

static double giga_bytes(const bench *b)
{
    return (double)b->settings->dimension * sizeof(float) * 1e-9;
}

static double giga_aes(const bench *b)
{
    (void)b;
    return (double)AES_PIECE * AES_PIECES * 1e-9;
}

static double giga_numbers(const bench *b)
{
    return (double)b->settings->dimension * 1e-9;
}

static double giga_masks(const bench *b)
{
    return giga_numbers(b) * b->settings->neighbours;
}

/* Keys count in microseconds each: the inverse of these in a second. */
static double mega_keys(const bench *b)
{
    (void)b;
    return KEYS * 1e-6;
}

static const measurement plain[] = {
    {run_read, giga_bytes, offsetof(bench_masks, read)},
    {run_aes, giga_aes, offsetof(bench_masks, aes)},
    {run_sha256, giga_bytes, offsetof(bench_masks, sha256)},
    {run_pair, mega_keys, offsetof(bench_masks, pair_us)},
    {run_secret, mega_keys, offsetof(bench_masks, secret_us)},
    {run_key, mega_keys, offsetof(bench_masks, key_us)},
};

static const measurement of_ring[] = {
    {run_mask, giga_numbers, offsetof(bench_ring, mask)},
    {run_member, giga_masks, offsetof(bench_ring, member)},
    {run_add, giga_numbers, offsetof(bench_ring, add)},
    {run_reference, giga_numbers, offsetof(bench_ring, reference)},
    {run_sum, giga_numbers, offsetof(bench_ring, sum)},
    {run_numbers, giga_numbers, offsetof(bench_ring, read)},
};

static void measure(bench *b, const measurement *what, size_t count, bool first, void *results)
{
    for (size_t m = 0; m < count; m++) {
        b->sink = bench_read(b->other.vectors, b->other.stride);
        const double start = clock_seconds();
        what[m].run(b);
        const double seconds = clock_seconds() - start;
        const double rate = what[m].work(b) / (seconds > 0 ? seconds : DBL_MIN);
        double *best = (double *)(void *)((char *)results + what[m].result);
        *best = first || rate > *best ? rate : *best;
    }
}

/* A member of a complete group begins an attempt with words of so many bits. */
static int begin_attempt(bench *b, uint32_t bits)
{
    const uint32_t workers = b->settings->neighbours + 1;
    uint32_t *lives = memory_allocate(NULL, workers, sizeof(*lives));
    uint32_t *holders = memory_allocate(NULL, CHUNKS, sizeof(*holders));
    uint8_t kappa[KAPPA_BYTES];
    int error = TARRY_ERROR_NO_MEMORY;
    if (lives != NULL && holders != NULL) {
        for (uint32_t j = 0; j < workers; j++)
            lives[j] = 1;
        kappa_context context = {.round = b->round++,
                                 .attempt = 1,
                                 .workers = workers,
                                 .lives = lives,
                                 .chunks = CHUNKS,
                                 .holders = holders,
                                 .colluders = workers};
        error = ring_choose(bits, 1, CHUNKS, &context.ring) ? TARRY_OK : TARRY_ERROR_ARGUMENT;
        b->of = context.ring;
        if (error == TARRY_OK)
            error = secure_member_begin(b->member, &context, kappa);
    }
    memory_release(NULL, holders);
    memory_release(NULL, lives);
    return error;
}

static int make_member(bench *b)
{
    const uint32_t workers = b->settings->neighbours + 1;
    b->pairs = memory_allocate(NULL, workers, sizeof(agreement *));
    if (b->pairs == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t j = 0; j < workers; j++) {
        b->pairs[j] = agreement_create();
        if (b->pairs[j] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    int error = secure_member_create(0, workers, b->pairs[0], NULL, &b->member);
    for (uint32_t j = 0; j < workers && error == TARRY_OK; j++)
        error = secure_member_hear(b->member, j, 1, agreement_public_key(b->pairs[j]));
    return error;
}

static int make_aes(bench *b)
{
    const uint8_t counter[16] = {0};
    b->cipher = mask_cipher_create();
    b->aes = EVP_CIPHER_CTX_new();
    b->zeros = memory_allocate(NULL, AES_PIECE, 1);
    b->piece = memory_allocate(NULL, AES_PIECE, 1);
    return b->cipher != NULL && b->aes != NULL && b->zeros != NULL && b->piece != NULL &&
                   EVP_EncryptInit_ex(b->aes, EVP_aes_128_ctr(), NULL, some_key, counter) == 1
               ? TARRY_OK
               : TARRY_ERROR_NO_MEMORY;
}

static int make_memory(bench *b)
{
    const size_t d = b->settings->dimension;
    int error = bench_memory_create(1, d, BENCH_PAGE, &b->numbers);
    if (error == TARRY_OK)
        error = bench_memory_create(1, 2 * d, BENCH_PAGE, &b->words);
    if (error == TARRY_OK)
        error = bench_memory_create(1, 2 * d, BENCH_PAGE, &b->more);
    if (error == TARRY_OK)
        error = bench_memory_create(1, bench_flush_length(), BENCH_PAGE, &b->other);
    return error;
}

static void release(bench *b)
{
    bench_memory *memories[] = {&b->numbers, &b->words, &b->more, &b->other};
    for (size_t i = 0; i < sizeof(memories) / sizeof(*memories); i++) {
        if (memories[i]->block != NULL)
            bench_memory_free(memories[i]);
    }
    secure_member_free(b->member);
    for (uint32_t j = 0; b->pairs != NULL && j <= b->settings->neighbours; j++)
        agreement_free(b->pairs[j]);
    memory_release(NULL, b->pairs);
    memory_release(NULL, b->zeros);
    memory_release(NULL, b->piece);
    EVP_CIPHER_CTX_free(b->aes);
    mask_cipher_free(b->cipher);
}

int bench_masks_run(const bench_masks_settings *settings, bench_masks *out)
{
    bench b = {.settings = settings};
    int error = make_memory(&b);
    if (error == TARRY_OK)
        error = make_member(&b);
    if (error == TARRY_OK)
        error = make_aes(&b);
    for (uint32_t i = 0; i < settings->repeat && error == TARRY_OK; i++) {
        measure(&b, plain, sizeof(plain) / sizeof(*plain), i == 0, out);
        for (size_t r = 0; r < 2 && error == TARRY_OK; r++) {
            error = begin_attempt(&b, r == 0 ? 32 : 64);
            if (error == TARRY_OK)
                measure(&b, of_ring, sizeof(of_ring) / sizeof(*of_ring), i == 0, &out->rings[r]);
        }
        if (b.failed)
            error = TARRY_ERROR_NO_MEMORY;
    }
    double *keys[] = {&out->pair_us, &out->secret_us, &out->key_us};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && error == TARRY_OK; i++)
        *keys[i] = 1 / *keys[i];
    release(&b);
    return error;
}
