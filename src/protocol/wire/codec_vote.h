/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about sums among workers, behind a frame's header. A sum is step 8, term 4, attempt 4,
 * digest 8. BREAK, FETCH, LOAD, COMMIT, HELD and FAILED have `sum`; STATE has `last`, `sum`, and a
 * digest of the parameters, 8. A piece is a sum, and how many numbers of each part it has, 8; both
 * are 0 where there is none. FAILED has one behind its sum, which is none where it is `fetched`.
 * HELD that is timed (flag bit 3) has took_ns, 8, > 0, and latency_ns, 8, behind its sum. A
 * SIGNAL's name is a sum without its digest, a scale, 8, which is finite and above 0, a shape, 8,
 * and a piece. A shape is its kind, 1, zeros, 3, and the rows of a grid, 4, else 0.
 */
#ifndef PROTOCOL_CODEC_VOTE_H
#define PROTOCOL_CODEC_VOTE_H

#include <tarry/event.h>

enum {
    CODEC_NAME_BYTES = 16,
    CODEC_SUM_BYTES = CODEC_NAME_BYTES + 8,
    CODEC_STATE_BYTES = 2 * CODEC_SUM_BYTES + 8,
    CODEC_PIECE_BYTES = CODEC_SUM_BYTES + 8,
    CODEC_FAILED_BYTES = CODEC_SUM_BYTES + CODEC_PIECE_BYTES,
    CODEC_TIMES_BYTES = 8 + 8,
    CODEC_SHAPE_BYTES = 8,
    CODEC_GROUP_BYTES = CODEC_NAME_BYTES + 8 + CODEC_SHAPE_BYTES +
                        CODEC_PIECE_BYTES, /* of a SIGNAL, before the set */
};

/* Whether it is a message of the vote alone. */
static inline bool codec_votes(tarry_message_type type)
{
    return type >= TARRY_MESSAGE_ASK;
}

/* Whether HELD says how long the sum took. */
static inline bool codec_is_timed(const tarry_message *message)
{
    return message->type == TARRY_MESSAGE_HELD && !message->fetched && message->took_ns > 0;
}

/* Bytes behind the header of a message of the vote; HELD may be timed. */
static inline size_t codec_vote_size(tarry_message_type type, bool timed)
{
    return type == TARRY_MESSAGE_ASK      ? 0
           : type == TARRY_MESSAGE_STATE  ? (size_t)CODEC_STATE_BYTES
           : type == TARRY_MESSAGE_FAILED ? (size_t)CODEC_FAILED_BYTES
           : timed                        ? (size_t)CODEC_SUM_BYTES + CODEC_TIMES_BYTES
                                          : (size_t)CODEC_SUM_BYTES;
}

/* Write them, and give the place behind them. */
uint8_t *codec_vote_put(uint8_t *at, const tarry_message *message);
uint8_t *codec_group_put(uint8_t *at, const tarry_message *signal);
/* Read them into the message, whose other fields stay. Errors: FORMAT (a piece of nothing; no time;
 * of a group: no name, no scale, or no shape, too). */
int codec_vote_get(const uint8_t *at, bool timed, tarry_message *message);
int codec_group_get(const uint8_t *at, tarry_message *signal);

#endif
