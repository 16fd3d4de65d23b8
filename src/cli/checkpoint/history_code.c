/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history_code.h"

#include <assert.h>
#include <math.h>

#include "base/bytes.h"

enum {
    HEAD_BYTES = 8 + 4 + 8,
    WORKER_BYTES = 2 * 8,
    ROUND_REALS = 13,
    ROUND_COUNTS = 9,
    ROUND_SMALL = 9,
    ROUND_BYTES = (ROUND_REALS + ROUND_COUNTS) * 8 + ROUND_SMALL * 4,
};

size_t history_encoded_size(const history *past)
{
    return HEAD_BYTES + (size_t)past->workers * WORKER_BYTES + past->count * ROUND_BYTES;
}

static uint8_t *put_round(uint8_t *at, const history_round *round)
{
    const tarry_round_result *result = &round->result;
    bool signalled = result->signal_ns != TARRY_NEVER;
    const double reals[ROUND_REALS] = {
        round->seconds,
        round->train.loss,
        round->train.accuracy,
        round->test.loss,
        round->test.accuracy,
        round->verified.error,
        result->filled_share,
        result->expected_error,
        round->verified.squared_error,
        round->changes.moved_data,
        result->conditioning,
        result->error_bound,
        round->verified.model_rounding,
    };
    const uint64_t counts[ROUND_COUNTS] = {
        result->round,
        signalled ? result->signal_ns - result->start_ns : TARRY_NEVER,
        result->end_ns - result->start_ns,
        result->copies_computed,
        result->copies_coded,
        result->copies_needed,
        result->upload_bytes,
        result->control_bytes,
        result->control_messages,
    };
    const uint32_t small[ROUND_SMALL] = {
        result->exact,        result->chunks_filled, result->parts,
        result->attempts,     result->workers_heard, result->workers_lost,
        round->changes.moved, round->changes.split,  round->changes.merged,
    };
    for (size_t i = 0; i < ROUND_REALS; i++)
        at = bytes_put_f64(at, reals[i]);
    for (size_t i = 0; i < ROUND_COUNTS; i++)
        at = bytes_put(at, counts[i], 8);
    for (size_t i = 0; i < ROUND_SMALL; i++)
        at = bytes_put(at, small[i], 4);
    return at;
}

/* False if others divide by what is 0, or it was not written by put_round. */
static bool get_round(const uint8_t *at, history_round *round)
{
    double reals[ROUND_REALS];
    uint64_t counts[ROUND_COUNTS];
    uint32_t small[ROUND_SMALL];
    for (size_t i = 0; i < ROUND_REALS; i++, at += 8)
        reals[i] = bytes_get_f64(at);
    for (size_t i = 0; i < ROUND_COUNTS; i++, at += 8)
        counts[i] = bytes_get(at, 8);
    for (size_t i = 0; i < ROUND_SMALL; i++, at += 4)
        small[i] = (uint32_t)bytes_get(at, 4);
    *round = (history_round){
        .result =
            {
                .round = counts[0],
                .exact = small[0] != 0,
                .expected_error = reals[7],
                .chunks_filled = small[1],
                .filled_share = reals[6],
                .conditioning = reals[10],
                .error_bound = reals[11],
                .parts = small[2],
                .attempts = small[3],
                .copies_computed = counts[3],
                .copies_coded = counts[4],
                .copies_needed = counts[5],
                .workers_heard = small[4],
                .workers_lost = small[5],
                .upload_bytes = counts[6],
                .control_bytes = counts[7],
                .control_messages = counts[8],
                .signal_ns = counts[1],
                .end_ns = counts[2],
            },
        .seconds = reals[0],
        .train = {reals[1], reals[2]},
        .test = {reals[3], reals[4]},
        .changes = {.moved = small[6],
                    .split = small[7],
                    .merged = small[8],
                    .moved_data = reals[9]},
        .verified = {reals[5], reals[8], reals[12]},
    };
    return small[0] <= 1 && round->result.parts >= 1 &&
           round->result.copies_needed >= round->result.parts && isfinite(round->seconds) &&
           round->seconds >= 0;
}

void history_encode(const history *past, uint8_t *bytes)
{
    uint8_t *at = bytes_put(bytes, past->count, 8);
    at = bytes_put(at, past->workers, 4);
    at = bytes_put_f64(at, past->seconds);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        at = bytes_put(at, past->worker[worker].chunks, 8);
        at = bytes_put_f64(at, past->worker[worker].seconds);
    }
    for (size_t i = 0; i < past->count; i++)
        at = put_round(at, &past->rounds[i]);
    assert(at == bytes + history_encoded_size(past));
}

int history_decode(history *past, size_t count, const uint8_t *bytes, size_t size)
{
    size_t workers = (size_t)past->workers * WORKER_BYTES;
    assert(past->count == 0);
    if (size < HEAD_BYTES + workers || bytes_get(bytes, 8) != count ||
        bytes_get(bytes + 8, 4) != past->workers ||
        count != (size - HEAD_BYTES - workers) / ROUND_BYTES ||
        (size - HEAD_BYTES - workers) % ROUND_BYTES != 0)
        return TARRY_ERROR_FORMAT;
    const uint8_t *rounds = bytes + HEAD_BYTES + workers;
    int error = TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++) {
        history_round *round = history_add(past);
        if (round == NULL)
            error = TARRY_ERROR_NO_MEMORY;
        else if (!get_round(rounds + i * ROUND_BYTES, round))
            error = TARRY_ERROR_FORMAT;
    }
    if (error != TARRY_OK) {
        past->count = 0;
        return error;
    }
    past->earlier_seconds = bytes_get_f64(bytes + 12);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        const uint8_t *at = bytes + HEAD_BYTES + (size_t)worker * WORKER_BYTES;
        past->earlier[worker] = (history_share){bytes_get(at, 8), bytes_get_f64(at + 8)};
    }
    return TARRY_OK;
}
