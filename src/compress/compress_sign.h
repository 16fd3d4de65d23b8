/* SPDX-License-Identifier: Apache-2.0 */
/* The form SIGN: of each block of numbers their signs, and the mean of their magnitudes. */
#ifndef COMPRESS_COMPRESS_SIGN_H
#define COMPRESS_COMPRESS_SIGN_H

#include <stddef.h>
#include <stdint.h>

enum { SIGN_BLOCK = 256, SIGN_SCALE_BYTES = 4 };

/* As compress_bytes, compress_encode and compress_decode_add (compress.h). */
size_t sign_bytes(size_t count);
void sign_put(const float *numbers, size_t count, uint8_t *bytes);
void sign_add(const uint8_t *bytes, size_t count, float weight, float *out);

#endif
