/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sums cost under Paillier's cryptosystem (P. Paillier, EUROCRYPT 1999), by GMP: what Tarry
 * does not do. Numbers of 32 bits are packed into a plain text with 16 bits of room each, for the
 * sum of 65,536 workers. Encryption is (1 + m n) r^n mod n^2, a sum a product mod n^2, decryption
 * by c^lambda mod n^2 without the Chinese remainder theorem. The primes are drawn from a fixed
 * seed: this is a clock, and no cryptography.
 *
 *     paillier [BITS]      of n; 2048 unless said
 */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOT_BITS = 48, NUMBER_BITS = 32, REPEAT = 20, SUMS = 2000, MEMBERS = 3 };

typedef struct keys {
    mpz_t n, square, lambda, mu;
} keys;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* With g = 1 + n, and primes of one length: lambda = (p - 1)(q - 1), mu its inverse mod n. */
static void make_keys(gmp_randstate_t random, unsigned long bits, keys *out)
{
    mpz_t p, q;
    mpz_inits(p, q, out->n, out->square, out->lambda, out->mu, NULL);
    mpz_t *primes[] = {&p, &q};
    for (int i = 0; i < 2; i++) {
        mpz_urandomb(*primes[i], random, bits / 2);
        mpz_setbit(*primes[i], bits / 2 - 1);
        mpz_setbit(*primes[i], bits / 2 - 2);
        mpz_nextprime(*primes[i], *primes[i]);
    }
    mpz_mul(out->n, p, q);
    mpz_mul(out->square, out->n, out->n);
    mpz_sub_ui(p, p, 1);
    mpz_sub_ui(q, q, 1);
    mpz_mul(out->lambda, p, q);
    mpz_invert(out->mu, out->lambda, out->n);
    mpz_clears(p, q, NULL);
}

static void encrypt(gmp_randstate_t random, const keys *with, const mpz_t plain, mpz_t cipher)
{
    mpz_t r;
    mpz_init(r);
    mpz_urandomm(r, random, with->n);
    mpz_powm(r, r, with->n, with->square);
    mpz_mul(cipher, plain, with->n);
    mpz_add_ui(cipher, cipher, 1);
    mpz_mul(cipher, cipher, r);
    mpz_mod(cipher, cipher, with->square);
    mpz_clear(r);
}

static void decrypt(const keys *with, const mpz_t cipher, mpz_t plain)
{
    mpz_powm(plain, cipher, with->lambda, with->square);
    mpz_sub_ui(plain, plain, 1);
    mpz_divexact(plain, plain, with->n);
    mpz_mul(plain, plain, with->mu);
    mpz_mod(plain, plain, with->n);
}

static void draw_plain(gmp_randstate_t random, unsigned long slots, mpz_t plain)
{
    mpz_t number;
    mpz_init(number);
    mpz_set_ui(plain, 0);
    for (unsigned long i = 0; i < slots; i++) {
        mpz_urandomb(number, random, NUMBER_BITS);
        mpz_mul_2exp(plain, plain, SLOT_BITS);
        mpz_add(plain, plain, number);
    }
    mpz_clear(number);
}

/* The sum of the cipher texts is that of the plain texts. */
static void check(gmp_randstate_t random, const keys *with, unsigned long slots)
{
    mpz_t plain, cipher, sum, product;
    mpz_inits(plain, cipher, sum, product, NULL);
    mpz_set_ui(product, 1);
    for (int i = 0; i < MEMBERS; i++) {
        draw_plain(random, slots, plain);
        mpz_add(sum, sum, plain);
        encrypt(random, with, plain, cipher);
        mpz_mul(product, product, cipher);
        mpz_mod(product, product, with->square);
    }
    decrypt(with, product, plain);
    if (mpz_cmp(plain, sum) != 0) {
        fprintf(stderr, "paillier: the sum is wrong\n");
        exit(1);
    }
    mpz_clears(plain, cipher, sum, product, NULL);
}

int main(int argc, char **argv)
{
    const unsigned long bits = argc > 1 ? strtoul(argv[1], NULL, 10) : 2048;
    if (bits < 256 || bits > 16384 || bits % 2 != 0) {
        fprintf(stderr, "paillier: n has an even number of 256 to 16384 bits\n");
        return 2;
    }
    const unsigned long slots = (bits - 1) / SLOT_BITS;
    gmp_randstate_t random;
    gmp_randinit_default(random);
    gmp_randseed_ui(random, 1);
    keys with;
    make_keys(random, bits, &with);
    check(random, &with, slots);
    mpz_t plain, cipher, sum;
    mpz_inits(plain, cipher, sum, NULL);
    draw_plain(random, slots, plain);
    double start = seconds();
    for (int i = 0; i < REPEAT; i++)
        encrypt(random, &with, plain, cipher);
    const double encrypted = (seconds() - start) / REPEAT;
    mpz_set(sum, cipher);
    start = seconds();
    for (int i = 0; i < SUMS; i++) {
        mpz_mul(sum, sum, cipher);
        mpz_mod(sum, sum, with.square);
    }
    const double added = (seconds() - start) / SUMS;
    start = seconds();
    for (int i = 0; i < REPEAT; i++)
        decrypt(&with, cipher, plain);
    const double decrypted = (seconds() - start) / REPEAT;
    printf(
        "Paillier, n of %lu bits, %lu numbers a cipher text of %lu bytes: %.1f bytes a number; us "
        "a number: encryption %.3g, sum %.3g, decryption %.3g\n",
        bits, slots, bits / 4, (double)bits / 4 / (double)slots, 1e6 * encrypted / (double)slots,
        1e6 * added / (double)slots, 1e6 * decrypted / (double)slots);
    mpz_clears(plain, cipher, sum, with.n, with.square, with.lambda, with.mu, NULL);
    gmp_randclear(random);
    return 0;
}
