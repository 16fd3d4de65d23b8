/* SPDX-License-Identifier: Apache-2.0 */
/* What a SIGNAL of secure sums says to all: a number of four bytes per worker and per chunk. */
#ifndef PROTOCOL_CODEC_SECURE_H
#define PROTOCOL_CODEC_SECURE_H

#include <tarry/event.h>

#include "protocol/wire/codec.h"

enum { CODEC_LIFE_BYTES = 4, CODEC_HOLDER_BYTES = 4 };

static inline size_t codec_secure_size(const codec_shape *shape)
{
    return shape->workers * CODEC_LIFE_BYTES + shape->chunks * CODEC_HOLDER_BYTES;
}

/* 64-bit words that they take. */
size_t codec_secure_words(const codec_shape *shape);
/* Writes lives and holders, and gives back what follows them. */
uint8_t *codec_secure_put(const codec_shape *shape, const tarry_message *signal, uint8_t *at);
/* Reads them to *words, which then lies behind them; the same. Any number may stand there. */
const uint8_t *codec_secure_get(const codec_shape *shape, const uint8_t *at, uint64_t **words,
                                tarry_message *signal);
/* Copies them to `words`, where the message then finds them; gives back what follows them. */
uint64_t *codec_secure_keep(const codec_shape *shape, tarry_message *signal, uint64_t *words);

#endif
