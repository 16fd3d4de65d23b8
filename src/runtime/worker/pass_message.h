/* SPDX-License-Identifier: Apache-2.0 */
/* What exchanges say to each other (pass_exchange.h), as bytes: the same on every machine. */
#ifndef RUNTIME_PASS_MESSAGE_H
#define RUNTIME_PASS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/event.h>

enum { PASS_DIGEST = 32, PASS_MOST_HEAD = 80 };

typedef enum pass_type {
    PASS_ASK_SUM_PIECE,   /* bytes first .. first + size - 1 of the sum `sum` */
    PASS_ASK_STATE,       /* the state after `sum`, or a later one */
    PASS_ASK_STATE_PIECE, /* bytes of the state that was offered */
    PASS_DONE,            /* no more of it is wanted */
    PASS_NONE,            /* what was asked for is not there */
    PASS_STATE,           /* the state after `sum` has `first` bytes, and this digest */
    PASS_PIECE,           /* bytes first .. first + size - 1 */
} pass_type;

typedef struct pass_message {
    pass_type type;
    uint64_t ticket; /* what it belongs to: counted by who asks */
    tarry_sum_id sum;
    uint64_t first;
    uint32_t size; /* of a piece, at most what both sides know */
    uint8_t digest[PASS_DIGEST];
    const uint8_t *bytes; /* PIECE: where they lie in what was decoded */
} pass_message;

/* Writes all but a PIECE's bytes, which follow, and gives back how many. */
size_t pass_encode(const pass_message *message, uint8_t bytes[PASS_MOST_HEAD]);
/* False: these bytes, which may be any, are no message, or one of a longer piece. */
bool pass_decode(const uint8_t *bytes, size_t size, uint32_t longest, pass_message *message);

#endif
