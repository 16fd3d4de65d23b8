/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks: words that nobody can tell from random ones without the key, of which any can be had
 * without those before it. A stream is AES-128 in counter mode: a key's first 16 bytes are the
 * cipher's key, the last 16 the first counter block (big-endian), and word i is made of the
 * stream's bytes from i w/8 on, little-endian. The counter need not be secret; as it
 * differs by key, a search for any of many keys costs as much as one for each.
 *
 * A cipher is made once and handed to each call, so that OpenSSL looks the algorithm up once. Words
 * pass through the nearest cache once for several masks.
 */
#ifndef PRIVACY_SECURE_MASKS_H
#define PRIVACY_SECURE_MASKS_H

#include "privacy/secure/ring.h"

enum { MASK_KEY_BYTES = 32 };

/* The stream of a key, which is added, or subtracted. */
typedef struct mask_stream {
    bool subtract;
    uint8_t key[MASK_KEY_BYTES];
} mask_stream;

/* For one thread at a time. It holds the last keys used until it forgets them or is freed, which
 * wipes them. */
typedef struct mask_cipher mask_cipher;

mask_cipher *mask_cipher_create(void); /* NULL: no memory */
void mask_cipher_free(mask_cipher *cipher);
void mask_cipher_forget(mask_cipher *cipher); /* NULL is allowed */

/*
 * words[i] = from[i], plus or minus the word first + i of each of the streams, for i < count.
 * `from` may be `words` itself; else they do not overlap. 0, or TARRY_ERROR_NO_MEMORY, after which
 * the words are of no use and must not be sent.
 */
int mask_apply(mask_cipher *cipher, const mask_stream *streams, size_t stream_count, const ring *of,
               uint64_t first, const void *from, void *words, size_t count);

#endif
