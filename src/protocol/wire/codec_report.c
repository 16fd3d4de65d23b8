/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec_report.h"

#include "base/bytes.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/codec_flags.h"

/* All fields are named, so that none is set twice. */
int codec_report_get(const uint8_t *frame, size_t size, tarry_message *message)
{
    unsigned flags = frame[1];
    bool termed = (flags & FLAG_TERM) != 0;
    if ((flags & ~(unsigned)CODEC_REPORT_FLAGS) != 0 ||
        size != CODEC_HEADER_BYTES + (size_t)(termed ? CODEC_TERM_BYTES : 0))
        return TARRY_ERROR_FORMAT;
    uint32_t term = termed ? (uint32_t)bytes_get(frame + CODEC_HEADER_BYTES, CODEC_TERM_BYTES) : 0;
    if (termed && term == 0)
        return TARRY_ERROR_FORMAT;
    *message = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = bytes_get(frame + 8, 8),
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .attempt = 0,
        .slot = (uint32_t)bytes_get(frame + 20, 4),
        .next = (uint32_t)bytes_get(frame + 16, 4),
        .sequence = (uint16_t)bytes_get(frame + 2, 2),
        .stripe = 0,
        .parts = 0,
        .failed = (flags & FLAG_FAILED) != 0,
        .fetched = false,
        .digests = false,
        .from = 0,
        .sum = {0},
        .piece = {0},
        .whole = 0,
        .last = {0},
        .state = 0,
        .took_ns = 0,
        .latency_ns = 0,
        .scale = 0,
        .shape = {0},
        .limit = 0,
        .fate = TARRY_FATE_OPEN,
        .term = term,
        .psi = NULL,
        .stripes = NULL,
        .stale = NULL,
        .first = NULL,
        .barred = NULL,
        .recalled = NULL,
        .life = 0,
        .stood = NULL,
        .weights = NULL,
        .group = NULL,
        .holders = NULL,
        .lives = NULL,
    };
    return TARRY_OK;
}
