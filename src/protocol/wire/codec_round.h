/* SPDX-License-Identifier: Apache-2.0 */
/* What a ROUND says of each position of the worker's order by a number of four bytes: the weights
 * of gradients, and ranks. */
#ifndef PROTOCOL_CODEC_ROUND_H
#define PROTOCOL_CODEC_ROUND_H

#include <tarry/event.h>

enum { CODEC_SLOT_BYTES = 4 };

/* 64-bit words that so many such numbers take. */
static inline size_t codec_number_words(size_t count)
{
    return (count * sizeof(uint32_t) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* Writes those that the message has, and gives back what follows them. */
uint8_t *codec_round_put(const tarry_message *round, size_t slots, uint8_t *at);
/* Reads `slots` of them; whether they are what they may be: 0, or finite and at least 1; positions.
 * Whether each of these is there once is the machine's to see. */
bool codec_weights_get(const uint8_t *at, size_t slots, float *weights);
bool codec_ranked_get(const uint8_t *at, size_t slots, uint32_t *ranked);
/* Copies those that the message has to `words`, where it then finds them; gives back what follows
 * them. */
uint64_t *codec_round_keep(tarry_message *round, size_t slots, uint64_t *words);

#endif
