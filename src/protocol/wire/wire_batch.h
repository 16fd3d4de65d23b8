/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of one round of which many come in one frame: the body of a BATCH (wire.h). */
#ifndef PROTOCOL_WIRE_BATCH_H
#define PROTOCOL_WIRE_BATCH_H

#include "base/bytes.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"

enum {
    WIRE_BATCH_HEAD_BYTES = 16,
    WIRE_BATCH_REPORT_BYTES = 16,
    WIRE_BATCH_MOST = 1024, /* reports in one BATCH */
};

typedef struct wire_batch {
    uint64_t round;
    uint32_t term;          /* of all of them; 0: they have none */
    uint32_t count;         /* 1..WIRE_BATCH_MOST */
    const uint8_t *reports; /* decode: borrowed from the body */
} wire_batch;

/* Writes the head of a frame with `batch->count` reports, which stand behind it already. Gives back
 * the bytes of all. */
size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame);
/* Errors: FORMAT, of any of the reports as well. */
int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch);

/* Writes report `index` of a frame; its round and term are the batch's. */
static inline void wire_batch_put(uint8_t *frame, uint32_t index, const tarry_message *report)
{
    uint8_t *at = frame + WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + index * WIRE_BATCH_REPORT_BYTES;
    at = bytes_put(at, report->epoch, 4);
    at = bytes_put(at, report->slot, 4);
    at = bytes_put(at, report->next, 4);
    at = bytes_put(at, report->sequence, 2);
    at = bytes_put(at, report->failed, 1);
    bytes_put(at, 0, 1);
}

/* Reads report `index` of a batch that was decoded. */
static inline void wire_batch_get(const wire_batch *batch, uint32_t index, tarry_message *report)
{
    const uint8_t *at = batch->reports + index * WIRE_BATCH_REPORT_BYTES;
    *report = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = batch->round,
        .term = batch->term,
        .epoch = (uint32_t)bytes_get(at, 4),
        .slot = (uint32_t)bytes_get(at + 4, 4),
        .next = (uint32_t)bytes_get(at + 8, 4),
        .sequence = (uint16_t)bytes_get(at + 12, 2),
        .failed = at[14] != 0,
    };
}

#endif
