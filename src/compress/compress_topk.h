/* SPDX-License-Identifier: Apache-2.0 */
/* The form TOPK: of each block of numbers the largest alone. */
#ifndef COMPRESS_COMPRESS_TOPK_H
#define COMPRESS_COMPRESS_TOPK_H

#include <stddef.h>
#include <stdint.h>

enum {
    TOPK_BLOCK = 65536,
    TOPK_WHOLE = 1000000, /* a share of all */
};

/* How many of `count` numbers, at most TOPK_BLOCK, are kept: ceil(count share / TOPK_WHOLE);
 * share: 1..TOPK_WHOLE. */
static inline size_t topk_kept(uint32_t share, size_t count)
{
    return (size_t)(((uint64_t)count * share + TOPK_WHOLE - 1) / TOPK_WHOLE);
}

/* As compress_bytes, compress_encode and compress_decode_add (compress.h), with the share. */
size_t topk_bytes(uint32_t share, size_t count);
void topk_put(uint32_t share, const float *numbers, size_t count, uint8_t *bytes);
void topk_add(uint32_t share, const uint8_t *bytes, size_t count, float weight, float *out);

#endif
