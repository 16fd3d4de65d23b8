/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_mesh.h"

#include "protocol/wire/wire_cursor.h"
#include "protocol/wire/wire_layout.h"

enum { NUMBER_BYTES = 4 };

static const char magic[6] = "TARRY";

static uint8_t *put_name(uint8_t *at, const tarry_sum_id *name)
{
    at = bytes_put(at, name->step, 8);
    at = bytes_put(at, name->term, 4);
    return bytes_put(at, name->attempt, 4);
}

static tarry_sum_id get_name(wire_reader *from)
{
    tarry_sum_id name = {.step = wire_get(from, 8)};
    name.term = (uint32_t)wire_get(from, 4);
    name.attempt = (uint32_t)wire_get(from, 4);
    return name;
}

static uint8_t *put_sum(uint8_t *at, const tarry_sum_id *sum)
{
    return bytes_put(put_name(at, sum), sum->digest, 8);
}

static tarry_sum_id get_sum(wire_reader *from)
{
    tarry_sum_id sum = get_name(from);
    sum.digest = wire_get(from, 8);
    return sum;
}

size_t wire_member_encode(const wire_member *member, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, member->worker, 4);
    at = bytes_put(at, member->arrival, 4);
    at = bytes_put(at, member->present, 1);
    at = bytes_put(at, 0, 1);
    at = bytes_put(at, member->size, 2);
    at = wire_put_bytes(at, member->fingerprint, WIRE_DIGEST_BYTES);
    at = wire_put_bytes(at, member->address, member->size);
    return wire_close(WIRE_MEMBER, frame, at, 0);
}

int wire_member_decode(const wire_head *head, const uint8_t *body, wire_member *member)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_member read = {.worker = (uint32_t)wire_get(&from, 4)};
    read.arrival = (uint32_t)wire_get(&from, 4);
    read.present = wire_get_bool(&from);
    wire_get_zeros(&from, 1);
    read.size = (uint16_t)wire_get_between(&from, 2, 0, read.present ? WIRE_ENGINE_BYTES : 0);
    wire_get_bytes(&from, read.fingerprint, WIRE_DIGEST_BYTES);
    if (!from.damaged)
        wire_get_bytes(&from, read.address, read.size);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *member = read;
    return TARRY_OK;
}

size_t wire_greeting_encode(const wire_greeting *greeting, uint8_t *frame)
{
    uint8_t *at = wire_put_bytes(frame + WIRE_HEAD_BYTES, magic, sizeof(magic));
    at = bytes_put(at, greeting->oldest, 2);
    at = bytes_put(at, greeting->newest, 2);
    at = bytes_put(at, 0, 6);
    at = wire_put_bytes(at, greeting->instance, WIRE_ID_BYTES);
    at = wire_put_bytes(at, greeting->wanted, WIRE_ID_BYTES);
    return wire_close(WIRE_GREETING, frame, at, 0);
}

int wire_greeting_decode(const wire_head *head, const uint8_t *body, wire_greeting *greeting)
{
    wire_reader from = wire_reader_make(body, head->length);
    const uint8_t *word = wire_take(&from, sizeof(magic));
    wire_require(&from, word != NULL && memcmp(word, magic, sizeof(magic)) == 0);
    wire_greeting read = {.oldest = (uint16_t)wire_get_between(&from, 2, 1, UINT16_MAX)};
    read.newest = (uint16_t)wire_get_between(&from, 2, read.oldest, UINT16_MAX);
    bool foreign = read.oldest > WIRE_VERSION || read.newest < WIRE_VERSION;
    if (!foreign) {
        wire_get_zeros(&from, 6);
        wire_get_bytes(&from, read.instance, WIRE_ID_BYTES);
        wire_get_bytes(&from, read.wanted, WIRE_ID_BYTES);
    }
    if (from.damaged || (from.left > 0 && !foreign))
        return TARRY_ERROR_FORMAT;
    *greeting = read;
    return TARRY_OK;
}

size_t wire_begun_encode(const wire_begun *begun, uint8_t *frame)
{
    uint8_t *at = put_name(frame + WIRE_HEAD_BYTES, &begun->name);
    at = bytes_put(at, begun->epoch, 8);
    at = bytes_put(at, begun->dimension, 8);
    at = bytes_put(at, begun->parts, 4);
    at = bytes_put(at, begun->empty, 1);
    at = bytes_put(at, begun->shape.kind, 1);
    at = bytes_put(at, begun->up, 1);
    at = bytes_put(at, begun->down, 1);
    at = bytes_put(at, begun->shape.rows, 4);
    return wire_close(WIRE_BEGUN, frame, at, 0);
}

/* Those without feedback. */
static tarry_compress get_form(wire_reader *from)
{
    return (tarry_compress)wire_get_between(from, 1, TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8);
}

int wire_begun_decode(const wire_head *head, const uint8_t *body, wire_begun *begun)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_begun read = {.name = get_name(&from)};
    read.epoch = wire_get(&from, 8);
    read.dimension = wire_get_between(&from, 8, 1, WIRE_VECTOR_MOST);
    read.parts = (uint32_t)wire_get_between(&from, 4, 1, WIRE_PARTS_MOST);
    read.empty = wire_get_bool(&from);
    read.shape.kind =
        (tarry_shape_kind)wire_get_between(&from, 1, TARRY_SHAPE_DIRECT, TARRY_SHAPE_TREE);
    read.up = get_form(&from);
    read.down = get_form(&from);
    read.shape.rows = (uint32_t)wire_get(&from, 4);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *begun = read;
    return TARRY_OK;
}

size_t wire_block_encode(const wire_block *block, uint8_t *frame)
{
    uint8_t *at = put_name(frame + WIRE_HEAD_BYTES, &block->name);
    at = bytes_put(at, block->kind, 1);
    at = bytes_put(at, block->form, 1);
    at = bytes_put(at, 0, 2);
    at = bytes_put(at, block->part, 4);
    at = bytes_put(at, block->first, 8);
    at = bytes_put(at, block->count, 4);
    return wire_close(WIRE_BLOCK, frame, at, block->bytes);
}

int wire_block_decode(const wire_head *head, const uint8_t *body, wire_block *block)
{
    wire_reader from = wire_reader_make(body, LAYOUT_BLOCK);
    wire_block read = {.name = get_name(&from)};
    read.kind = (wire_block_kind)wire_get_between(&from, 1, 0, WIRE_BLOCKS - 1);
    read.form = get_form(&from);
    wire_get_zeros(&from, 2);
    read.part = (uint32_t)wire_get_between(&from, 4, 0,
                                           read.kind == WIRE_BLOCK_PART ? 0 : WIRE_PARTS_MOST - 1);
    read.first = wire_get_between(&from, 8, 0, WIRE_VECTOR_MOST);
    read.count = wire_get_between(&from, 4, 1, WIRE_BLOCK_NUMBERS);
    read.bytes = head->length - LAYOUT_BLOCK;
    wire_require(&from, read.form == TARRY_COMPRESS_NONE ? read.bytes == read.count * NUMBER_BYTES
                                                         : read.kind != WIRE_BLOCK_PARTIAL);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *block = read;
    return TARRY_OK;
}

size_t wire_ask_encode(const wire_ask *ask, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, ask->request, 4);
    at = bytes_put(at, ask->kind, 1);
    at = bytes_put(at, 0, 3);
    at = put_sum(at, &ask->sum);
    return wire_close(WIRE_ASK, frame, at, 0);
}

int wire_ask_decode(const wire_head *head, const uint8_t *body, wire_ask *ask)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_ask read = {.request = (uint32_t)wire_get(&from, 4)};
    read.kind = (wire_ask_kind)wire_get_between(&from, 1, 0, WIRE_ASKS - 1);
    wire_get_zeros(&from, 3);
    read.sum = get_sum(&from);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *ask = read;
    return TARRY_OK;
}

size_t wire_answer_encode(const wire_answer *answer, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, answer->request, 4);
    at = bytes_put(at, answer->outcome, 1);
    at = bytes_put(at, 0, 3);
    at = put_sum(at, &answer->sum);
    at = bytes_put(at, answer->total, 8);
    at = wire_put_bytes(at, answer->digest, WIRE_DIGEST_BYTES);
    return wire_close(WIRE_ANSWER, frame, at, 0);
}

int wire_answer_decode(const wire_head *head, const uint8_t *body, wire_answer *answer)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_answer read = {.request = (uint32_t)wire_get(&from, 4)};
    read.outcome = (wire_outcome)wire_get_between(&from, 1, 0, WIRE_OUTCOMES - 1);
    wire_get_zeros(&from, 3);
    read.sum = get_sum(&from);
    read.total =
        wire_get_between(&from, 8, 0, read.outcome == WIRE_OUTCOME_COMES ? WIRE_BLOB_MOST : 0);
    wire_get_bytes(&from, read.digest, WIRE_DIGEST_BYTES);
    for (int i = 0; read.outcome != WIRE_OUTCOME_WHOLE && i < WIRE_DIGEST_BYTES; i++)
        wire_require(&from, read.digest[i] == 0);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *answer = read;
    return TARRY_OK;
}

size_t wire_piece_encode(const wire_piece *piece, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, piece->request, 4);
    at = bytes_put(at, 0, 4);
    at = bytes_put(at, piece->first, 8);
    return wire_close(WIRE_PIECE, frame, at, piece->count);
}

int wire_piece_decode(const wire_head *head, const uint8_t *body, wire_piece *piece)
{
    wire_reader from = wire_reader_make(body, LAYOUT_PIECE);
    wire_piece read = {.request = (uint32_t)wire_get(&from, 4)};
    wire_get_zeros(&from, 4);
    read.first = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    read.count = head->length - LAYOUT_PIECE;
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *piece = read;
    return TARRY_OK;
}
