/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_trunk.h"

#include <math.h>

#include "protocol/wire/wire_cursor.h"
#include "protocol/wire/wire_layout.h"
#include "protocol/wire/wire_text.h"

enum { NUMBER_BYTES = 4 };

/* ---- BATCH ---- */

size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, batch->round, 8);
    at = bytes_put(at, batch->term, 4);
    at = bytes_put(at, batch->lanes, 1);
    at = bytes_put(at, batch->norms, 1);
    at = bytes_put(at, 0, 2);
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
    read.lanes = wire_get_bool(&from);
    read.norms = wire_get_bool(&from);
    wire_get_zeros(&from, 2);
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

/* ---- lanes ---- */

static uint32_t get_lane(wire_reader *from)
{
    return (uint32_t)wire_get_between(from, 4, 0, WIRE_LANES_MOST - 1);
}

size_t wire_lane_open_encode(const wire_lane_open *open, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, open->lane, 4);
    at = bytes_put(at, open->trusted, 1);
    at = bytes_put(at, 0, 1);
    at = bytes_put(at, open->size, 2);
    if (open->size > 0)
        at = wire_put_bytes(at, open->certificate, open->size);
    at = wire_put_text(at, open->from);
    return wire_close(WIRE_LANE_OPEN, frame, at, 0);
}

int wire_lane_open_decode(const wire_head *head, const uint8_t *body, wire_lane_open *open)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_lane_open read = {.lane = get_lane(&from)};
    read.trusted = wire_get_bool(&from);
    wire_get_zeros(&from, 1);
    read.size = (uint16_t)wire_get_between(&from, 2, read.trusted ? 0 : 1, WIRE_CERTIFICATE_BYTES);
    read.certificate = wire_take(&from, read.size);
    wire_get_words(&from, read.from);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *open = read;
    return TARRY_OK;
}

void wire_lane_head(uint32_t lane, size_t size,
                    uint8_t bytes[WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES])
{
    wire_head_encode(WIRE_LANE, (uint32_t)(WIRE_LANE_HEAD_BYTES + size), bytes);
    bytes_put(bytes + WIRE_HEAD_BYTES, lane, 4);
}

bool wire_lane_takes(wire_kind kind)
{
    switch (kind) {
    case WIRE_HELLO:
    case WIRE_WELCOME:
    case WIRE_REFUSED:
    case WIRE_BYE:
    case WIRE_MESSAGE:
    case WIRE_FETCH:
    case WIRE_READY:
    case WIRE_MEMBER:
    case WIRE_BATCH:
    case WIRE_PARENTS:
        return true;
    case WIRE_HEARTBEAT: /* HEARD says it */
    case WIRE_PARAMETERS:
    case WIRE_VIEW:
    case WIRE_BLOB:
    case WIRE_SHARE:
    case WIRE_SHARED:
    case WIRE_STATUS:
    case WIRE_GREETING:
    case WIRE_BEGUN:
    case WIRE_BLOCK:
    case WIRE_ASK:
    case WIRE_ANSWER:
    case WIRE_PIECE:
    case WIRE_LANE_OPEN:
    case WIRE_LANE:
    case WIRE_LANE_PART:
    case WIRE_LANE_END:
    case WIRE_LANE_BLOB:
    case WIRE_TAKEN:
    case WIRE_HEARD:
    case WIRE_GATHER:
    case WIRE_GATHERED:
    case WIRE_ADVERTISE:
    case WIRE_SECURE: /* secure sums go without relays */
    case WIRE_KEY:
    case WIRE_KINDS:
        break;
    }
    return false;
}

/* A frame of which all is there, and that is none with numbers behind it. */
static bool is_small(const wire_head *head, const uint8_t *body, size_t size)
{
    return head->length == size && wire_lane_takes(head->kind) &&
           (size == 0 || wire_fixed_length(head, body[0]) == size);
}

int wire_lane_decode(const wire_head *head, const uint8_t *body, uint32_t *lane, wire_head *inner,
                     const uint8_t **inner_body)
{
    wire_reader from = wire_reader_make(body, head->length);
    uint32_t number = get_lane(&from);
    const uint8_t *frame = wire_take(&from, WIRE_HEAD_BYTES);
    wire_head read;
    if (frame == NULL || from.damaged || wire_head_decode(frame, &read) != TARRY_OK ||
        !is_small(&read, from.at, from.left))
        return TARRY_ERROR_FORMAT;
    *lane = number;
    *inner = read;
    *inner_body = from.at;
    return TARRY_OK;
}

size_t wire_lane_part_encode(const wire_lane_part *part, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, part->lane, 4);
    at = wire_put_bytes(at, part->message, CODEC_HEADER_BYTES);
    return wire_close(WIRE_LANE_PART, frame, at, part->bytes);
}

int wire_lane_part_decode(const wire_head *head, const uint8_t *body, wire_lane_part *part)
{
    wire_reader from = wire_reader_make(body, LAYOUT_LANE_PART);
    wire_lane_part read = {.lane = get_lane(&from)};
    wire_get_bytes(&from, read.message, CODEC_HEADER_BYTES);
    wire_require(&from, read.message[0] == TARRY_MESSAGE_PART);
    read.bytes = head->length - LAYOUT_LANE_PART;
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *part = read;
    return TARRY_OK;
}

size_t wire_lane_end_encode(const wire_lane_end *end, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, end->lane, 4);
    at = bytes_put(at, end->reason, 1);
    at = wire_put_text(at, end->text);
    return wire_close(WIRE_LANE_END, frame, at, 0);
}

int wire_lane_end_decode(const wire_head *head, const uint8_t *body, wire_lane_end *end)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_lane_end read = {.lane = get_lane(&from)};
    read.reason =
        (wire_lane_reason)wire_get_between(&from, 1, WIRE_LANE_CLOSED, WIRE_LANE_REASONS - 1);
    wire_get_words(&from, read.text);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *end = read;
    return TARRY_OK;
}

size_t wire_lane_blob_encode(const wire_lane_blob *blob, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, blob->lane, 4);
    at = bytes_put(at, blob->kind, 1);
    at = bytes_put(at, 0, 3);
    at = bytes_put(at, blob->index, 4);
    at = bytes_put(at, 0, 4);
    at = bytes_put(at, blob->total, 8);
    at = wire_put_bytes(at, blob->digest, WIRE_DIGEST_BYTES);
    return wire_close(WIRE_LANE_BLOB, frame, at, 0);
}

int wire_lane_blob_decode(const wire_head *head, const uint8_t *body, wire_lane_blob *blob)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_lane_blob read = {.lane = get_lane(&from)};
    read.kind = (wire_blob_kind)wire_get_between(&from, 1, WIRE_BLOB_PLAN, WIRE_BLOBS - 1);
    wire_get_zeros(&from, 3);
    read.index =
        (uint32_t)wire_get_between(&from, 4, 0, read.kind == WIRE_BLOB_DATA ? UINT32_MAX : 0);
    wire_get_zeros(&from, 4);
    read.total = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    wire_get_bytes(&from, read.digest, WIRE_DIGEST_BYTES);
    for (int i = 0; read.kind != WIRE_BLOB_PLAN && i < WIRE_DIGEST_BYTES; i++)
        wire_require(&from, read.digest[i] == 0);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *blob = read;
    return TARRY_OK;
}

size_t wire_taken_encode(const wire_taken *taken, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, taken->lane, 4);
    return wire_close(WIRE_TAKEN, frame, bytes_put(at, taken->count, 4), 0);
}

int wire_taken_decode(const wire_head *head, const uint8_t *body, wire_taken *taken)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_taken read = {.lane = (uint32_t)wire_get(&from, 4)};
    wire_require(&from, read.lane < WIRE_LANES_MOST || read.lane == WIRE_NO_LANE);
    read.count = (uint32_t)wire_get_between(&from, 4, 1, WIRE_LANE_WINDOW);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *taken = read;
    return TARRY_OK;
}

size_t wire_heard_encode(const wire_heard *heard, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, heard->first, 4);
    at = wire_put_bytes(at, heard->bits, heard->size);
    return wire_close(WIRE_HEARD, frame, at, 0);
}

int wire_heard_decode(const wire_head *head, const uint8_t *body, wire_heard *heard)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_heard read = {.first = get_lane(&from), .size = (uint32_t)from.left};
    wire_require(&from, read.first % 8 == 0 && read.size <= (WIRE_LANES_MOST - read.first) / 8);
    read.bits = wire_take(&from, read.size);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *heard = read;
    return TARRY_OK;
}

/* ---- sums on the way ---- */

size_t wire_gather_encode(const wire_gather *gather, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, gather->round, 8);
    at = bytes_put(at, gather->attempt, 4);
    at = bytes_put(at, gather->group, 4);
    at = bytes_put(at, gather->parts, 4);
    at = bytes_put(at, gather->count, 4);
    at = bytes_put(at, 0, 8);
    return wire_close(WIRE_GATHER, frame, at + gather->count * wire_gather_stride(gather), 0);
}

static bool are_contributors(const wire_gather *gather)
{
    size_t stride = wire_gather_stride(gather);
    for (uint32_t i = 0; i < gather->count; i++) {
        const uint8_t *at = gather->lanes + i * stride;
        if (bytes_get(at, 4) >= WIRE_LANES_MOST)
            return false;
        for (uint32_t part = 0; part < gather->parts; part++) {
            float weight;
            memcpy(&weight, at + 8 + part * sizeof(float), sizeof(weight));
            if (!isfinite(weight))
                return false;
        }
    }
    return true;
}

int wire_gather_decode(const wire_head *head, const uint8_t *body, wire_gather *gather)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_gather read = {.round = wire_get(&from, 8)};
    read.attempt = (uint32_t)wire_get(&from, 4);
    read.group = (uint32_t)wire_get(&from, 4);
    read.parts = (uint32_t)wire_get_between(&from, 4, 1, WIRE_PARTS_MOST);
    read.count = (uint32_t)wire_get_between(&from, 4, 1, WIRE_LANES_MOST);
    wire_get_zeros(&from, 8);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    read.lanes = wire_take(&from, read.count * wire_gather_stride(&read));
    if (!wire_ended(&from) || !are_contributors(&read))
        return TARRY_ERROR_FORMAT;
    *gather = read;
    return TARRY_OK;
}

void wire_gather_put(const wire_gather *gather, uint8_t *frame, uint32_t index, uint32_t lane,
                     uint32_t epoch, const float *weights)
{
    uint8_t *at =
        frame + WIRE_HEAD_BYTES + WIRE_GATHER_HEAD_BYTES + index * wire_gather_stride(gather);
    at = bytes_put(at, lane, 4);
    at = bytes_put(at, epoch, 4);
    wire_put_bytes(at, weights, gather->parts * sizeof(float));
}

void wire_gather_get(const wire_gather *gather, uint32_t index, uint32_t *lane, uint32_t *epoch,
                     float *weights)
{
    const uint8_t *at = gather->lanes + index * wire_gather_stride(gather);
    *lane = (uint32_t)bytes_get(at, 4);
    *epoch = (uint32_t)bytes_get(at + 4, 4);
    memcpy(weights, at + 8, gather->parts * sizeof(float));
}

size_t wire_gathered_encode(const wire_gathered *gathered, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, gathered->round, 8);
    at = bytes_put(at, gathered->attempt, 4);
    at = bytes_put(at, gathered->group, 4);
    at = bytes_put(at, gathered->stripe, 4);
    at = bytes_put(at, gathered->part, 4);
    return wire_close(WIRE_GATHERED, frame, at, gathered->count * NUMBER_BYTES);
}

int wire_gathered_decode(const wire_head *head, const uint8_t *body, wire_gathered *gathered)
{
    wire_reader from = wire_reader_make(body, LAYOUT_GATHERED);
    wire_gathered read = {.round = wire_get(&from, 8)};
    read.attempt = (uint32_t)wire_get(&from, 4);
    read.group = (uint32_t)wire_get(&from, 4);
    read.stripe = (uint32_t)wire_get(&from, 4);
    read.part = (uint32_t)wire_get_between(&from, 4, 0, WIRE_PARTS_MOST - 1);
    size_t numbers = head->length - LAYOUT_GATHERED;
    read.count = numbers / NUMBER_BYTES;
    wire_require(&from, numbers % NUMBER_BYTES == 0);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *gathered = read;
    return TARRY_OK;
}

/* ---- parents ---- */

size_t wire_parents_encode(const wire_parents *parents, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, parents->count, 1);
    for (uint32_t i = 0; i < parents->count; i++)
        at = wire_put_text(at, parents->address[i]);
    return wire_close(WIRE_PARENTS, frame, at, 0);
}

int wire_parents_decode(const wire_head *head, const uint8_t *body, wire_parents *parents)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_parents read = {.count = (uint32_t)wire_get_between(&from, 1, 0, WIRE_PARENTS_MOST)};
    for (uint32_t i = 0; i < read.count && !from.damaged; i++) {
        wire_get_name(&from, read.address[i]);
        wire_require(&from, read.address[i][0] != 0);
    }
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *parents = read;
    return TARRY_OK;
}

size_t wire_advertise_encode(const wire_advertise *advertise, uint8_t *frame)
{
    uint8_t *at = wire_put_text(frame + WIRE_HEAD_BYTES, advertise->address);
    return wire_close(WIRE_ADVERTISE, frame, at, 0);
}

int wire_advertise_decode(const wire_head *head, const uint8_t *body, wire_advertise *advertise)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_advertise read = {.address = ""};
    wire_get_name(&from, read.address);
    wire_require(&from, read.address[0] != 0);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *advertise = read;
    return TARRY_OK;
}
