/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec_vote.h"

#include <math.h>

#include <tarry/error.h>

#include "base/bytes.h"

static uint8_t *put_name(uint8_t *at, const tarry_sum_id *sum)
{
    at = bytes_put(at, sum->step, 8);
    at = bytes_put(at, sum->term, 4);
    return bytes_put(at, sum->attempt, 4);
}

static tarry_sum_id get_name(const uint8_t *at)
{
    return (tarry_sum_id){
        .step = bytes_get(at, 8),
        .term = (uint32_t)bytes_get(at + 8, 4),
        .attempt = (uint32_t)bytes_get(at + 12, 4),
    };
}

static uint8_t *put_sum(uint8_t *at, const tarry_sum_id *sum)
{
    return bytes_put(put_name(at, sum), sum->digest, 8);
}

static tarry_sum_id get_sum(const uint8_t *at)
{
    tarry_sum_id sum = get_name(at);
    sum.digest = bytes_get(at + CODEC_NAME_BYTES, 8);
    return sum;
}

static uint8_t *put_piece(uint8_t *at, const tarry_message *message)
{
    return bytes_put(put_sum(at, &message->piece), message->whole, 8);
}

static int get_piece(const uint8_t *at, tarry_message *message)
{
    tarry_sum_id sum = get_sum(at);
    uint64_t whole = bytes_get(at + CODEC_SUM_BYTES, 8);
    bool none = sum.step == 0 && sum.term == 0 && sum.attempt == 0 && sum.digest == 0;
    if (none ? whole != 0 : sum.step == 0 || whole == 0)
        return TARRY_ERROR_FORMAT;
    message->piece = sum;
    message->whole = whole;
    return TARRY_OK;
}

uint8_t *codec_vote_put(uint8_t *at, const tarry_message *message)
{
    if (message->type == TARRY_MESSAGE_ASK)
        return at;
    if (message->type == TARRY_MESSAGE_FAILED)
        return put_piece(put_sum(at, &message->sum), message);
    if (message->type != TARRY_MESSAGE_STATE) {
        at = put_sum(at, &message->sum);
        if (!codec_is_timed(message))
            return at;
        return bytes_put(bytes_put(at, message->took_ns, 8), message->latency_ns, 8);
    }
    at = put_sum(put_sum(at, &message->last), &message->sum);
    return bytes_put(at, message->state, 8);
}

static uint8_t *put_shape(uint8_t *at, tarry_shape shape)
{
    at = bytes_put(at, shape.kind, 1);
    at = bytes_put(at, 0, 3);
    return bytes_put(at, shape.rows, 4);
}

static int get_shape(const uint8_t *at, tarry_shape *shape)
{
    uint64_t kind = bytes_get(at, 1), rows = bytes_get(at + 4, 4);
    bool is_grid = kind == TARRY_SHAPE_GRID;
    if (kind > TARRY_SHAPE_TREE || bytes_get(at + 1, 3) != 0 || (is_grid ? rows < 2 : rows != 0))
        return TARRY_ERROR_FORMAT;
    *shape = (tarry_shape){(tarry_shape_kind)kind, (uint32_t)rows};
    return TARRY_OK;
}

uint8_t *codec_group_put(uint8_t *at, const tarry_message *signal)
{
    at = bytes_put_f64(put_name(at, &signal->sum), signal->scale);
    return put_piece(put_shape(at, signal->shape), signal);
}

static int get_times(const uint8_t *at, tarry_message *message)
{
    message->took_ns = bytes_get(at, 8);
    message->latency_ns = bytes_get(at + 8, 8);
    return message->took_ns > 0 ? TARRY_OK : TARRY_ERROR_FORMAT;
}

int codec_vote_get(const uint8_t *at, bool timed, tarry_message *message)
{
    if (message->type == TARRY_MESSAGE_ASK)
        return TARRY_OK;
    if (message->type != TARRY_MESSAGE_STATE) {
        message->sum = get_sum(at);
        return message->type == TARRY_MESSAGE_FAILED ? get_piece(at + CODEC_SUM_BYTES, message)
               : timed                               ? get_times(at + CODEC_SUM_BYTES, message)
                                                     : TARRY_OK;
    }
    message->last = get_sum(at);
    message->sum = get_sum(at + CODEC_SUM_BYTES);
    message->state = bytes_get(at + 2 * CODEC_SUM_BYTES, 8);
    return TARRY_OK;
}

int codec_group_get(const uint8_t *at, tarry_message *signal)
{
    tarry_sum_id sum = get_name(at);
    double scale = bytes_get_f64(at + CODEC_NAME_BYTES);
    if (sum.step == 0 || !(scale > 0 && isfinite(scale)))
        return TARRY_ERROR_FORMAT;
    signal->sum = sum;
    signal->scale = scale;
    int error = get_shape(at + CODEC_NAME_BYTES + 8, &signal->shape);
    return error == TARRY_OK ? get_piece(at + CODEC_NAME_BYTES + 8 + CODEC_SHAPE_BYTES, signal)
                             : error;
}
