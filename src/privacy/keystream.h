/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for draws and noise that nobody can tell without the key: AES-256 in counter mode, of
 * which any number can be had without those before it. Philox (base/random.h) is no cipher: who
 * sees some of its numbers may work out the others.
 */
#ifndef PRIVACY_KEYSTREAM_H
#define PRIVACY_KEYSTREAM_H

#include <stddef.h>
#include <stdint.h>

enum { KEYSTREAM_KEY_BYTES = 32 };

/* The keys of a training, one for each purpose. */
typedef struct privacy_keys {
    uint8_t draws[KEYSTREAM_KEY_BYTES], noise[KEYSTREAM_KEY_BYTES];
} privacy_keys;

/* For tests: keys that anyone has who knows the seed. 0, or -1 without memory. */
int privacy_keys_of_seed(uint64_t seed, privacy_keys *keys);

/* numbers[i] = the number first + i of the key's stream `stream`: uniform 64 bits. 0, or -1 without
 * memory. */
int keystream_read(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t stream, uint64_t first,
                   uint64_t *numbers, size_t count);

/*
 * Poisson sampling: each sample is in a round's batch with the same probability, by itself. Whether
 * it is depends on the key, the round and the sample alone, so that all copies of a chunk draw the
 * same samples, whoever works them out and in whatever pieces.
 */

typedef struct sampler {
    double rate;                      /* the probability, 0..1 */
    uint8_t key[KEYSTREAM_KEY_BYTES]; /* secret, or nothing is gained from sampling */
} sampler;

/* Those of the samples first .. first + count - 1 that are in the round's batch, ascending:
 * *drawn of them, for which `samples` has room for `count`. 0, or -1 without memory. */
int sampler_draw(const sampler *of, uint64_t round, uint64_t first, size_t count, size_t *samples,
                 size_t *drawn);

/* Gaussian noise on sums: what a release of one is made of. */

/*
 * numbers[i] += a normal number of that deviation (> 0), for i = 0..count-1, all independent; then
 * it is rounded to noise_grid, which hides the last bits of both, and to float32. The same key and
 * release give the same noise: use each release of a key once. 0, or -1 without memory, after which
 * the numbers are of no use.
 */
int noise_add(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t release, double deviation,
              float *numbers, size_t count);

/* What sums with noise are multiples of: the largest power of two up to deviation / 256. */
double noise_grid(double deviation);

#endif
