/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs what handles secrets over memory that valgrind takes for uninitialized: it reports each
 * branch, and each address, that depends on a key, a number or a word. test_secret_branches.py runs
 * this program; with the argument `planted` it does branch on a secret, so that the test can fail.
 */
#include <stdio.h>
#include <string.h>
#include <valgrind/memcheck.h>

#include <tarry/error.h>

#include "privacy/secure/ring.h"
#include "privacy/secure/secure_member.h"

enum { COUNT = 1003 };

#define SECRET(thing) VALGRIND_MAKE_MEM_UNDEFINED(&(thing), sizeof(thing))
#define PUBLIC(thing) VALGRIND_MAKE_MEM_DEFINED(&(thing), sizeof(thing))

static void rings(void)
{
    static float numbers[COUNT];
    static uint64_t words[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i - 500) / 100;
    numbers[7] = 1e30F;
    SECRET(numbers);
    SECRET(words);
    for (uint32_t bits = 32; bits <= 64; bits += 32) {
        ring of;
        if (!ring_choose(bits, 3, 10, &of))
            return;
        const ring_scale scale = ring_scale_of(&of);
        size_t clamped = 0;
        for (size_t k = 0; ring_kernel_at(k) != NULL; k++) {
            const ring_kernel *kernel = ring_kernel_at(k);
            clamped += (bits == 32 ? kernel->add32 : kernel->add64)(&scale, numbers, COUNT, words);
            kernel->sum(bits, sum, words, ring_bytes(&of, COUNT), k % 2 == 0);
        }
        ring_count(&of, words, 5, clamped);
        ring_sum(&of, words, COUNT, sum);
        ring_read(&of, sum, COUNT, numbers);
    }
}

static void masks(void)
{
    static uint64_t words[COUNT];
    mask_stream with[2] = {{.key = {1}}, {.subtract = true, .key = {2}}};
    mask_cipher *cipher = mask_cipher_create();
    /* Half of it is the cipher's key. The rest is where the counter begins, on which OpenSSL
     * branches where its last 32 bits wrap: counter mode is as good with a counter that all know.
     */
    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++)
        (void)VALGRIND_MAKE_MEM_UNDEFINED(with[i].key, MASK_KEY_BYTES / 2);
    SECRET(words);
    for (uint32_t bits = 32; bits <= 64 && cipher != NULL; bits += 32) {
        const ring of = {.bits = bits, .fraction = 0, .bound = 1};
        (void)mask_apply(cipher, with, sizeof(with) / sizeof(*with), &of, 12345, words, words,
                         COUNT);
    }
    mask_cipher_free(cipher);
}

/* The secret that OpenSSL makes is marked as one, and a key is derived from it. */
static void keys(void)
{
    agreement *one = agreement_create(), *other = agreement_create();
    uint8_t secret[AGREEMENT_KEY_BYTES], kappa[32] = {0};
    agreement_mask_keys made;
    if (one != NULL && other != NULL &&
        agreement_secret(one, agreement_public_key(other), secret) == TARRY_OK) {
        const agreement_member lower = {1, agreement_public_key(one)};
        const agreement_member higher = {2, agreement_public_key(other)};
        SECRET(secret);
        (void)agreement_make_mask_keys(one, secret, lower, higher, kappa, &made);
        PUBLIC(secret);
    }
    agreement_free(one);
    agreement_free(other);
}

static void planted(void)
{
    uint32_t word = 7;
    SECRET(word);
    if (word == 7)
        puts("seven");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "planted") == 0) {
        planted();
        return 0;
    }
    rings();
    masks();
    keys();
    return 0;
}
