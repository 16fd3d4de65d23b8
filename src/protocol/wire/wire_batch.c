/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_batch.h"

#include "protocol/wire/wire_cursor.h"

size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, batch->round, 8);
    at = bytes_put(at, batch->term, 4);
    at = bytes_put(at, 0, 4);
    return wire_close(WIRE_BATCH, frame, at + batch->count * WIRE_BATCH_REPORT_BYTES, 0);
}

/* The last two bytes of each: a flag, and a zero. */
static bool are_reports(const wire_batch *batch)
{
    const uint8_t *last = batch->reports + WIRE_BATCH_REPORT_BYTES - 2;
    unsigned wrong = 0;
    for (uint32_t i = 0; i < batch->count; i++, last += WIRE_BATCH_REPORT_BYTES)
        wrong |= (last[0] & ~1U) | last[1];
    return wrong == 0;
}

int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_batch read = {.round = wire_get(&from, 8)};
    read.term = (uint32_t)wire_get(&from, 4);
    wire_get_zeros(&from, 4);
    size_t count = from.left / WIRE_BATCH_REPORT_BYTES;
    wire_require(&from, count >= 1 && count <= WIRE_BATCH_MOST);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    read.count = (uint32_t)count;
    read.reports = wire_take(&from, count * WIRE_BATCH_REPORT_BYTES);
    if (!wire_ended(&from) || !are_reports(&read))
        return TARRY_ERROR_FORMAT;
    *batch = read;
    return TARRY_OK;
}
