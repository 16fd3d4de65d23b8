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

#endif
