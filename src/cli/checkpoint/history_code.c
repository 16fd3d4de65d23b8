/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history_code.h"

#include <assert.h>
#include <math.h>

#include "base/bytes.h"

enum {
    HEAD_BYTES = 4 + 8,
    WORKER_BYTES = 2 * 8,
    ROUND_REALS = 14,
    ROUND_COUNTS = 11,
    ROUND_SMALL = 14,
    LOST = 2, /* in place of whether it was exact */
};

_Static_assert((ROUND_REALS + ROUND_COUNTS) * 8 + ROUND_SMALL * 4 == HISTORY_ROUND_BYTES, "");

size_t history_encoded_size(const history *past)
{
    return HEAD_BYTES + (size_t)past->workers * WORKER_BYTES;
}

void history_encode_round(const history_round *round, uint8_t *bytes)
{
    uint8_t *at = bytes;
    const tarry_round_result *result = &round->result;
    const uint32_t exact = round->lost ? LOST : result->exact;
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
        result->sampling_error,
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
        result->sum.step,
        result->sum.digest,
    };
    const uint32_t small[ROUND_SMALL] = {
        exact,
        result->chunks_filled,
        result->parts,
        result->attempts,
        result->workers_heard,
        result->workers_lost,
        round->changes.moved,
        round->changes.split,
        round->changes.merged,
        result->sum.term,
        result->sum.attempt,
        result->voters,
        result->fetches,
        result->chunks_sampled,
    };
    for (size_t i = 0; i < ROUND_REALS; i++)
        at = bytes_put_f64(at, reals[i]);
    for (size_t i = 0; i < ROUND_COUNTS; i++)
        at = bytes_put(at, counts[i], 8);
    for (size_t i = 0; i < ROUND_SMALL; i++)
        at = bytes_put(at, small[i], 4);
    assert(at == bytes + HISTORY_ROUND_BYTES);
}

int history_decode_round(const uint8_t *bytes, history_round *round)
{
    const uint8_t *at = bytes;
    double reals[ROUND_REALS];
    uint64_t counts[ROUND_COUNTS];
    uint32_t small[ROUND_SMALL];
    for (size_t i = 0; i < ROUND_REALS; i++, at += 8)
        reals[i] = bytes_get_f64(at);
    for (size_t i = 0; i < ROUND_COUNTS; i++, at += 8)
        counts[i] = bytes_get(at, 8);
    for (size_t i = 0; i < ROUND_SMALL; i++, at += 4)
        small[i] = (uint32_t)bytes_get(at, 4);
    const history_round read = {
        .result =
            {
                .round = counts[0],
                .exact = small[0] == 1,
                .expected_error = reals[7],
                .chunks_filled = small[1],
                .filled_share = reals[6],
                .conditioning = reals[10],
                .error_bound = reals[11],
                .sampling_error = reals[13],
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
                .sum = {.step = counts[9],
                        .term = small[9],
                        .attempt = small[10],
                        .digest = counts[10]},
                .voters = small[11],
                .fetches = small[12],
                .chunks_sampled = small[13],
                .signal_ns = counts[1],
                .end_ns = counts[2],
            },
        .lost = small[0] == LOST,
        .seconds = reals[0],
        .train = {reals[1], reals[2]},
        .test = {reals[3], reals[4]},
        .changes = {.moved = small[6],
                    .split = small[7],
                    .merged = small[8],
                    .moved_data = reals[9]},
        .verified = {reals[5], reals[8], reals[12]},
    };
    /* Others divide by these. */
    if (small[0] > LOST || read.result.parts < 1 || read.result.copies_needed < read.result.parts ||
        !(isfinite(read.seconds) && read.seconds >= 0))
        return TARRY_ERROR_FORMAT;
    *round = read;
    return TARRY_OK;
}

void history_encode(const history *past, uint8_t *bytes)
{
    uint8_t *at = bytes_put(bytes, past->workers, 4);
    at = bytes_put_f64(at, past->seconds);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        at = bytes_put(at, past->worker[worker].chunks, 8);
        at = bytes_put_f64(at, past->worker[worker].seconds);
    }
    assert(at == bytes + history_encoded_size(past));
}

int history_decode(history *past, const uint8_t *bytes, size_t size)
{
    if (size != history_encoded_size(past) || bytes_get(bytes, 4) != past->workers)
        return TARRY_ERROR_FORMAT;
    past->earlier_seconds = bytes_get_f64(bytes + 4);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        const uint8_t *at = bytes + HEAD_BYTES + (size_t)worker * WORKER_BYTES;
        past->earlier[worker] = (history_share){bytes_get(at, 8), bytes_get_f64(at + 8)};
    }
    return TARRY_OK;
}
