/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (OpenSSL) of numbers that are written in little-endian order,
 * so that every machine gets the same. */
typedef struct digest digest;

digest *digest_begin(void); /* NULL if there is no memory */
/* Each add gives back 0, or -1 on failure;
 * digest_end frees in any case and then says whether all went well. */
int digest_add_bytes(digest *state, const uint8_t *bytes, size_t count);
int digest_add_u32(digest *state, const uint32_t *values, size_t count);
int digest_add_f64(digest *state, const double *values, size_t count);
int digest_end(digest *state, uint8_t out[32]);
/* All of it at once, of bytes. 0, or -1 on failure, for which no memory is the only reason. */
int digest_of_bytes(const uint8_t *bytes, size_t count, uint8_t out[32]);

#endif
