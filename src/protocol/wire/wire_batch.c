/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_batch.h"

#include "protocol/wire/wire_cursor.h"

size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, batch->round, 8);
    at = bytes_put(at, batch->term, 4);
    at = bytes_put(at, batch->norms, 1);
    at = bytes_put(at, 0, 3);
    return wire_close(WIRE_BATCH, frame, at + batch->count * wire_batch_stride(batch), 0);
}

/* The last two bytes of each: a flag, and a zero; or, behind them, its norm. */
static bool are_reports(const wire_batch *batch)
{
    size_t stride = wire_batch_stride(batch);
    size_t behind = 2 + (size_t)(batch->norms ? CODEC_NORM_BYTES : 0);
    const uint8_t *last = batch->reports + stride - behind;
    unsigned wrong = 0, flags = batch->norms ? 0 : 1; /* what failed has no norm */
    for (uint32_t i = 0; i < batch->count; i++, last += stride) {
        wrong |= (last[0] & ~flags) | last[1];
        if (batch->norms)
            wrong |= !codec_is_norm(last + 2);
    }
    return wrong == 0;
}

int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_batch read = {.round = wire_get(&from, 8)};
    read.term = (uint32_t)wire_get(&from, 4);
    read.norms = wire_get_bool(&from);
    wire_get_zeros(&from, 3);
    size_t count = from.left / wire_batch_stride(&read);
    wire_require(&from, count >= 1 && count <= WIRE_BATCH_MOST);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    read.count = (uint32_t)count;
    read.reports = wire_take(&from, count * wire_batch_stride(&read));
    if (!wire_ended(&from) || !are_reports(&read))
        return TARRY_ERROR_FORMAT;
    *batch = read;
    return TARRY_OK;
}
