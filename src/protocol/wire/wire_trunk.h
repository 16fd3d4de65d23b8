/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of which many come in one frame, and what a relay and its parent say to each other: the
 * connections of the relay's children are lanes of its one connection upward, the trunk. Bodies of
 * frames (wire.h), by the same rules.
 */
#ifndef PROTOCOL_WIRE_TRUNK_H
#define PROTOCOL_WIRE_TRUNK_H

#include "base/bytes.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"

enum {
    WIRE_BATCH_HEAD_BYTES = 16,
    WIRE_BATCH_REPORT_BYTES = 16, /* of a report in a BATCH; */
    WIRE_BATCH_LANE_BYTES = 4,    /* so many more where it names its lane, and as many where it has
                                     a norm */
    WIRE_BATCH_LONGEST_BYTES = WIRE_BATCH_REPORT_BYTES + 2 * WIRE_BATCH_LANE_BYTES,
    WIRE_BATCH_MOST = 1024,    /* reports in one BATCH */
    WIRE_LANES_MOST = 1 << 16, /* of a trunk; their numbers are below it */
    WIRE_LANE_HEAD_BYTES = 4,  /* of a LANE, before the child's frame */
    WIRE_LANE_WINDOW = 4,      /* PARTs of a lane, and GATHEREDs of a trunk, that may be on their
                                  way without a TAKEN */
    WIRE_CERTIFICATE_BYTES = 4096, /* longest */
    WIRE_HEARD_BYTES = WIRE_LANES_MOST / 8,
    WIRE_GATHER_HEAD_BYTES = 32,
    WIRE_LANE_OPEN_BYTES = 8 + WIRE_CERTIFICATE_BYTES + 1 + WIRE_TEXT_BYTES, /* longest body */
};

/* ---- BATCH: reports of one round, from a worker or, with lanes, over a trunk ---- */

typedef struct wire_batch {
    uint64_t round;
    uint32_t term;          /* of all of them; 0: they have none */
    bool lanes;             /* each names the lane that it came from */
    bool norms;             /* each is of a finished gradient, and has its norm */
    uint32_t count;         /* 1..WIRE_BATCH_MOST */
    const uint8_t *reports; /* decode: borrowed from the body */
} wire_batch;

/* Writes the head of a frame with `batch->count` reports, which stand behind it already. Gives back
 * the bytes of all. */
size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame);
/* Errors: FORMAT, of any of the reports as well. */
int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch);

static inline size_t wire_batch_stride(const wire_batch *batch)
{
    return WIRE_BATCH_REPORT_BYTES + (size_t)(batch->lanes ? WIRE_BATCH_LANE_BYTES : 0) +
           (size_t)(batch->norms ? CODEC_NORM_BYTES : 0);
}

/* Writes report `index` of a frame; its round and term, and whether it has a norm, are the batch's.
 */
static inline void wire_batch_put(const wire_batch *batch, uint8_t *frame, uint32_t index,
                                  uint32_t lane, const tarry_message *report)
{
    uint8_t *at =
        frame + WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + index * wire_batch_stride(batch);
    if (batch->lanes)
        at = bytes_put(at, lane, 4);
    at = bytes_put(at, report->epoch, 4);
    at = bytes_put(at, report->slot, 4);
    at = bytes_put(at, report->next, 4);
    at = bytes_put(at, report->sequence, 2);
    at = bytes_put(at, report->failed, 1);
    at = bytes_put(at, 0, 1);
    if (batch->norms)
        bytes_put_f32(at, report->norm);
}

/* Reads report `index` of a batch that was decoded. *lane is set if the batch has lanes. */
static inline void wire_batch_get(const wire_batch *batch, uint32_t index, uint32_t *lane,
                                  tarry_message *report)
{
    const uint8_t *at = batch->reports + index * wire_batch_stride(batch);
    if (batch->lanes) {
        *lane = (uint32_t)bytes_get(at, 4);
        at += WIRE_BATCH_LANE_BYTES;
    }
    *report = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = batch->round,
        .term = batch->term,
        .epoch = (uint32_t)bytes_get(at, 4),
        .slot = (uint32_t)bytes_get(at + 4, 4),
        .next = (uint32_t)bytes_get(at + 8, 4),
        .sequence = (uint16_t)bytes_get(at + 12, 2),
        .failed = at[14] != 0,
        .normed = batch->norms,
        .norm = batch->norms ? bytes_get_f32(at + WIRE_BATCH_REPORT_BYTES) : 0,
    };
}

/* ---- lanes ---- */

typedef struct wire_lane_open {
    uint32_t lane;              /* that is not open, below WIRE_LANES_MOST */
    bool trusted;               /* who may open a Unix socket's file, or plain text all the way */
    uint16_t size;              /* of the certificate, 0 only if it is trusted */
    const uint8_t *certificate; /* the child's, DER; decode: borrowed from the body */
    char from[WIRE_TEXT_BYTES + 1]; /* where the child is, for people; printable ASCII */
} wire_lane_open;

size_t wire_lane_open_encode(const wire_lane_open *open, uint8_t *frame);
int wire_lane_open_decode(const wire_head *head, const uint8_t *body, wire_lane_open *open);

/* A LANE's head, lane and the head of the child's frame of `size` bytes, which follows as it is. */
void wire_lane_head(uint32_t lane, size_t size,
                    uint8_t bytes[WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES]);
/* Whether a frame of this kind may come in a LANE: small ones of workers, relays' own not. */
bool wire_lane_takes(wire_kind kind);
/* *inner is the head of the child's frame, whose body is at *inner_body. Errors: FORMAT, of the
 * inner head as well, and of a frame that may not come so. */
int wire_lane_decode(const wire_head *head, const uint8_t *body, uint32_t *lane, wire_head *inner,
                     const uint8_t **inner_body);

/* A coded part that no relay has summed: the lane, codec_encode's bytes, and the numbers. */
typedef struct wire_lane_part {
    uint32_t lane;
    uint8_t message[CODEC_HEADER_BYTES]; /* a PART's */
    size_t bytes; /* of its numbers, in their form, that follow, 1..4 WIRE_NUMBERS_MOST */
} wire_lane_part;

size_t wire_lane_part_encode(const wire_lane_part *part, uint8_t *frame);
int wire_lane_part_decode(const wire_head *head, const uint8_t *body, wire_lane_part *part);

typedef enum wire_lane_reason {
    WIRE_LANE_CLOSED = 1, /* in good order */
    WIRE_LANE_BROKEN,     /* the text says why */
    WIRE_LANE_SILENT,
    WIRE_LANE_NOT_FRAMES, /* what the child says is not of this protocol */
    WIRE_LANE_STUCK,      /* the child does not take what is sent to it */
    WIRE_LANE_ADRIFT, /* a relay has no memory for it, or is gone itself: the child may be well */
    WIRE_LANE_REASONS,
} wire_lane_reason;

typedef struct wire_lane_end {
    uint32_t lane;
    wire_lane_reason reason;
    char text[WIRE_TEXT_BYTES + 1]; /* printable ASCII */
} wire_lane_end;

size_t wire_lane_end_encode(const wire_lane_end *end, uint8_t *frame);
int wire_lane_end_decode(const wire_head *head, const uint8_t *body, wire_lane_end *end);

/* Parent: the child of the lane is to get this blob, which the relay FETCHes unless it has it. */
typedef struct wire_lane_blob {
    uint32_t lane;
    wire_blob_kind kind;
    uint32_t index;                    /* DATA; 0 otherwise */
    uint64_t total;                    /* bytes, at most WIRE_BLOB_MOST */
    uint8_t digest[WIRE_DIGEST_BYTES]; /* PLAN: the plan's; else zeros */
} wire_lane_blob;

size_t wire_lane_blob_encode(const wire_lane_blob *blob, uint8_t *frame);
int wire_lane_blob_decode(const wire_head *head, const uint8_t *body, wire_lane_blob *blob);

#define WIRE_NO_LANE UINT32_MAX

/* Parent: so many more LANE_PARTs of the lane may come; or GATHEREDs (WIRE_NO_LANE). */
typedef struct wire_taken {
    uint32_t lane;
    uint32_t count; /* 1..WIRE_LANE_WINDOW */
} wire_taken;

size_t wire_taken_encode(const wire_taken *taken, uint8_t *frame);
int wire_taken_decode(const wire_head *head, const uint8_t *body, wire_taken *taken);

/* Relay: which children were heard since it last said so. Bit i of byte j: lane first + 8 j + i. */
typedef struct wire_heard {
    uint32_t first;      /* a multiple of 8 */
    uint32_t size;       /* bytes, 1..WIRE_HEARD_BYTES, first + 8 size <= WIRE_LANES_MOST */
    const uint8_t *bits; /* decode: borrowed from the body */
} wire_heard;

size_t wire_heard_encode(const wire_heard *heard, uint8_t *frame);
int wire_heard_decode(const wire_head *head, const uint8_t *body, wire_heard *heard);

/* ---- sums on the way ---- */

/* Parent: the relay adds up the coded parts of these lanes, in this order. */
typedef struct wire_gather {
    uint64_t round;
    uint32_t attempt;
    uint32_t group;       /* the parent's number for it, new for each */
    uint32_t parts;       /* l, 1..WIRE_PARTS_MOST: blocks of a sum, and weights of a contributor */
    uint32_t count;       /* contributors, >= 1 */
    const uint8_t *lanes; /* decode: borrowed from the body */
} wire_gather;

/* Bytes of a contributor: lane, epoch and weights. */
static inline size_t wire_gather_stride(const wire_gather *gather)
{
    return 8 + (size_t)gather->parts * sizeof(float);
}

/* Writes the head of a frame with `gather->count` contributors, which stand behind it already.
 * Gives back the bytes of all, at most WIRE_HEAD_BYTES + WIRE_MESSAGE_BYTES. */
size_t wire_gather_encode(const wire_gather *gather, uint8_t *frame);
int wire_gather_decode(const wire_head *head, const uint8_t *body, wire_gather *gather);
void wire_gather_put(const wire_gather *gather, uint8_t *frame, uint32_t index, uint32_t lane,
                     uint32_t epoch, const float *weights);
/* Sets `parts` weights. */
void wire_gather_get(const wire_gather *gather, uint32_t index, uint32_t *lane, uint32_t *epoch,
                     float *weights);

/* Relay: one block of the sum of a stripe over a group; blocks of a stripe come in their order. */
typedef struct wire_gathered {
    uint64_t round;
    uint32_t attempt;
    uint32_t group;
    uint32_t stripe;
    uint32_t part;  /* which block, below the group's parts */
    uint64_t count; /* numbers that follow, 1..WIRE_NUMBERS_MOST */
} wire_gathered;

size_t wire_gathered_encode(const wire_gathered *gathered, uint8_t *frame);
int wire_gathered_decode(const wire_head *head, const uint8_t *body, wire_gathered *gathered);

/* ---- parents ---- */

/* Root, to a worker or relay: where else it may connect to, the best first. */
enum { WIRE_PARENTS_MOST = 4, WIRE_PARENTS_BYTES = 1 + WIRE_PARENTS_MOST * (1 + WIRE_TEXT_BYTES) };

typedef struct wire_parents {
    uint32_t count;                                       /* 0..WIRE_PARENTS_MOST */
    char address[WIRE_PARENTS_MOST][WIRE_TEXT_BYTES + 1]; /* not empty, no control characters */
} wire_parents;

size_t wire_parents_encode(const wire_parents *parents, uint8_t *frame);
int wire_parents_decode(const wire_head *head, const uint8_t *body, wire_parents *parents);

/* Relay: where children can connect to it. */
typedef struct wire_advertise {
    char address[WIRE_TEXT_BYTES + 1]; /* not empty, no control characters */
} wire_advertise;

size_t wire_advertise_encode(const wire_advertise *advertise, uint8_t *frame);
int wire_advertise_decode(const wire_head *head, const uint8_t *body, wire_advertise *advertise);

#endif
