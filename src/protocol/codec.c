/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/codec.h"

#include <string.h>

#include "base/bitset.h"
#include "base/bytes.h"
#include "coding/coverage.h"

enum { FLAG_FAILED = 1 };

static size_t bytes_of(size_t bits)
{
    return (bits + 7) / 8;
}

codec_shape codec_shape_of(const tarry_plan *plan, uint32_t worker, uint32_t stripes)
{
    return (codec_shape){
        .psi_bits = coverage_view_bits(plan, worker),
        .stripes = stripes,
        .slots = tarry_plan_load(plan, worker),
    };
}

size_t codec_size(const codec_shape *shape, tarry_message_type type)
{
    switch (type) {
    case TARRY_MESSAGE_SIGNAL:
        return CODEC_HEADER_BYTES + bytes_of(shape->psi_bits) + bytes_of(shape->stripes);
    case TARRY_MESSAGE_RESUME:
        return CODEC_HEADER_BYTES + bytes_of(shape->slots);
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_FINISH:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
        break;
    }
    return CODEC_HEADER_BYTES;
}

size_t codec_max_size(const codec_shape *shape)
{
    size_t signal = codec_size(shape, TARRY_MESSAGE_SIGNAL);
    size_t resume = codec_size(shape, TARRY_MESSAGE_RESUME);
    return signal > resume ? signal : resume;
}

size_t codec_words(const codec_shape *shape)
{
    size_t signal = bitset_words(shape->psi_bits) + bitset_words(shape->stripes);
    size_t resume = bitset_words(shape->slots);
    return signal > resume ? signal : resume;
}

static uint8_t *put_bits(uint8_t *at, const uint64_t *set, size_t bits)
{
    for (size_t byte = 0; byte < bytes_of(bits); byte++)
        *at++ = (uint8_t)(set[byte / 8] >> 8 * (byte % 8));
    if (bits % 8 != 0)
        at[-1] &= (uint8_t)((1u << bits % 8) - 1);
    return at;
}

/* Fails if a padding bit is set: then this is not the set that was sent. */
static const uint8_t *get_bits(const uint8_t *at, size_t bits, uint64_t *set)
{
    memset(set, 0, bitset_words(bits) * sizeof(*set));
    for (size_t byte = 0; byte < bytes_of(bits); byte++)
        set[byte / 8] |= (uint64_t)at[byte] << 8 * (byte % 8);
    if (bits % 8 != 0 && at[bits / 8] >> bits % 8 != 0)
        return NULL;
    return at + bytes_of(bits);
}

void codec_encode(const codec_shape *shape, const tarry_message *message, uint8_t *frame)
{
    bool has_stripe = message->type == TARRY_MESSAGE_PART;
    uint8_t *at = bytes_put(frame, message->type, 1);
    at = bytes_put(at, message->failed ? FLAG_FAILED : 0, 3);
    at = bytes_put(at, message->epoch, 4);
    at = bytes_put(at, message->round, 8);
    at = bytes_put(at, message->attempt, 4);
    at = bytes_put(at, has_stripe ? message->stripe : message->slot, 4);
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        at = put_bits(at, message->psi, shape->psi_bits);
        put_bits(at, message->stripes, shape->stripes);
    }
    if (message->type == TARRY_MESSAGE_RESUME)
        put_bits(at, message->slots, shape->slots);
}

int codec_decode(const codec_shape *shape, const uint8_t *frame, size_t size, uint64_t *words,
                 tarry_message *message)
{
    if (size < CODEC_HEADER_BYTES || frame[0] > TARRY_MESSAGE_ALIVE)
        return TARRY_ERROR_FORMAT;
    tarry_message_type type = (tarry_message_type)frame[0];
    if (size != codec_size(shape, type) || frame[1] > FLAG_FAILED || frame[2] != 0 || frame[3] != 0)
        return TARRY_ERROR_FORMAT;

    uint32_t index = (uint32_t)bytes_get(frame + 20, 4);
    tarry_message read = {
        .type = type,
        .failed = frame[1] == FLAG_FAILED,
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .round = bytes_get(frame + 8, 8),
        .attempt = (uint32_t)bytes_get(frame + 16, 4),
        .stripe = type == TARRY_MESSAGE_PART ? index : 0,
        .slot = type == TARRY_MESSAGE_PART ? 0 : index,
    };
    const uint8_t *at = frame + CODEC_HEADER_BYTES;
    if (type == TARRY_MESSAGE_SIGNAL) {
        read.psi = words;
        at = get_bits(at, shape->psi_bits, words);
        words += bitset_words(shape->psi_bits);
        read.stripes = words;
        if (at == NULL || get_bits(at, shape->stripes, words) == NULL)
            return TARRY_ERROR_FORMAT;
    }
    if (type == TARRY_MESSAGE_RESUME) {
        read.slots = words;
        if (get_bits(at, shape->slots, words) == NULL)
            return TARRY_ERROR_FORMAT;
    }
    *message = read;
    return TARRY_OK;
}
