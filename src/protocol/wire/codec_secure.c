/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec_secure.h"

#include <string.h>

#include "base/bytes.h"
#include "protocol/wire/codec_round.h"

size_t codec_secure_words(const codec_shape *shape)
{
    return shape->chunks == 0
               ? 0
               : codec_number_words(shape->workers) + codec_number_words(shape->chunks);
}

static uint8_t *put(const uint32_t *numbers, size_t count, uint8_t *at)
{
    for (size_t i = 0; i < count; i++)
        at = bytes_put(at, numbers[i], sizeof(uint32_t));
    return at;
}

uint8_t *codec_secure_put(const codec_shape *shape, const tarry_message *signal, uint8_t *at)
{
    return put(signal->holders, shape->chunks, put(signal->lives, shape->workers, at));
}

static const uint8_t *get(const uint8_t *at, size_t count, uint64_t **words, const uint32_t **set)
{
    uint32_t *numbers = (uint32_t *)*words;
    for (size_t i = 0; i < count; i++, at += sizeof(uint32_t))
        numbers[i] = (uint32_t)bytes_get(at, sizeof(uint32_t));
    *set = numbers;
    *words += codec_number_words(count);
    return at;
}

const uint8_t *codec_secure_get(const codec_shape *shape, const uint8_t *at, uint64_t **words,
                                tarry_message *signal)
{
    at = get(at, shape->workers, words, &signal->lives);
    return get(at, shape->chunks, words, &signal->holders);
}

uint64_t *codec_secure_keep(const codec_shape *shape, tarry_message *signal, uint64_t *words)
{
    signal->lives = memcpy(words, signal->lives, shape->workers * sizeof(uint32_t));
    words += codec_number_words(shape->workers);
    signal->holders = memcpy(words, signal->holders, shape->chunks * sizeof(uint32_t));
    return words + codec_number_words(shape->chunks);
}
