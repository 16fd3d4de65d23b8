/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of the network runtime that costs nothing: it speaks the runtime's protocol over a bare
 * line, with a worker's own machine, but a chunk is finished as soon as it is to be computed, and
 * coded parts were prepared before. So what a round takes is what the server and the way to it
 * take.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdint.h>

#include <tarry/plan.h>
#include <tarry/worker.h>

#include "coding/layout.h"
#include "program/line.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"

typedef struct bench_peer {
    bench_line line;
    tarry_worker *machine;
    layout cut;
    codec_shape shape;
    uint64_t *words;
    uint8_t *in; /* what is read of the next frame */
    size_t in_size, in_capacity;
    uint8_t *reports; /* frames of this round: one for each chunk, all of report_bytes */
    size_t report_count, report_capacity;
    bool in_round;      /* reports are there, to be sent */
    bool encoding;      /* `part` is to be sent */
    tarry_message part; /* a PART */
    bool left;          /* the server has ended the run */
} bench_peer;

enum {
    BENCH_REPORT_BYTES = WIRE_HEAD_BYTES + CODEC_HEADER_BYTES,
    BENCH_PART_PREFIX_BYTES = WIRE_HEAD_BYTES + CODEC_HEADER_BYTES,
};

/*
 * Connects as `worker` of the server's plan, a copy of which this is, and gets ready for rounds.
 * Errors: SYSTEM, STATE (turned away), FORMAT (what came is not of the protocol), NO_MEMORY; the
 * peer is closed then.
 */
int bench_peer_open(bench_peer *peer, const char *where, const credential *self,
                    const tarry_plan *plan, uint32_t worker, tarry_diagnostic *diagnostic);
void bench_peer_close(bench_peer *peer);

/* Reads what is there, waiting for the first byte, and steps the machine. Errors: SYSTEM (the
 * connection is lost), FORMAT, NO_MEMORY. */
int bench_peer_read(bench_peer *peer, tarry_diagnostic *diagnostic);
/* Sends `part` with the numbers that follow BENCH_PART_PREFIX_BYTES in `frame`, where its prefix is
 * written. Errors: SYSTEM. */
int bench_peer_send_part(bench_peer *peer, uint8_t *frame, tarry_diagnostic *diagnostic);

#endif
