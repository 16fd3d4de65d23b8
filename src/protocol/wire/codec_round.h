/* SPDX-License-Identifier: Apache-2.0 */
/* What a ROUND says of each position of the worker's order by a number of four bytes: the weights
 * of gradients. */
#ifndef PROTOCOL_CODEC_ROUND_H
#define PROTOCOL_CODEC_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CODEC_SLOT_BYTES = 4 };

/* 64-bit words that so many such numbers take. */
static inline size_t codec_number_words(size_t count)
{
    return (count * sizeof(uint32_t) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* Writes `slots` of them, and gives back what follows them. */
uint8_t *codec_weights_put(const float *weights, size_t slots, uint8_t *at);
/* Reads `slots` of them. True if they are what they may be: 0, or finite and at least 1. */
bool codec_weights_get(const uint8_t *at, size_t slots, float *weights);

#endif
