/* SPDX-License-Identifier: Apache-2.0 */
/* Emulated workers, for their own files. */
#ifndef BENCH_EMULATED_STATE_H
#define BENCH_EMULATED_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "program/emulated/emulated.h"
#include "protocol/wire/wire.h"

typedef struct emulated_bytes {
    uint8_t *bytes;
    size_t size, room;
} emulated_bytes;

typedef struct emulated_worker emulated_worker;

typedef struct emulated_line {
    int fd;             /* -1: none */
    emulated_bytes in;  /* the beginning of a frame */
    emulated_bytes out; /* what the connection does not take yet */
} emulated_line;

struct emulated_worker {
    uint32_t worker;
    emulated_line line;
    bool was_ready;
    bool left;      /* the server has ended the run */
    bool has_round; /* `round`, */
    bool signalled; /* and the signal has come, for: */
    bool owes;      /* a part */
    uint32_t epoch;
    uint64_t round;
    uint32_t attempt;
};

typedef struct emulated {
    const emulated_settings *settings;
    emulated_tally *tally;
    uint8_t digest[WIRE_DIGEST_BYTES];
    int poll;
    uint32_t count, left;
    uint32_t apart;    /* without a connection, and not left */
    uint32_t rounds;   /* of which reports went out */
    uint32_t in_round; /* workers that the next one has come to */
    uint32_t owing;    /* parts */
    uint8_t *scratch;  /* frames of one worker's reports, or a part */
    uint8_t *input;    /* EMULATED_READ_BYTES */
    emulated_worker *workers;
} emulated;

enum { EMULATED_READ_BYTES = 64 << 10 };

/* Sends, and keeps what is not taken. Errors: NO_MEMORY. */
int emulated_send(const emulated *all, emulated_worker *its, const uint8_t *bytes, size_t size);

/* emulated_rounds.c */
/* A frame of the server. Errors: FORMAT, STATE, NO_MEMORY. */
int emulated_take_frame(emulated *all, emulated_worker *its, const wire_head *head,
                        const uint8_t *body, tarry_diagnostic *diagnostic);
/* Says what is due. Errors: NO_MEMORY. */
int emulated_report(emulated *all);
int emulated_send_parts(emulated *all);
/* HELLO. */
int emulated_introduce(const emulated *all, emulated_worker *its);

#endif
