/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/outgoing.h"

wire_blob_kind outgoing_kind(outgoing_tag tag)
{
    return tag == OUTGOING_PLAN  ? WIRE_BLOB_PLAN
           : tag == OUTGOING_JOB ? WIRE_BLOB_JOB
                                 : WIRE_BLOB_DATA;
}

bool outgoing_add(outgoing *self, const outgoing_stream *stream)
{
    if (self->count == OUTGOING_STREAMS)
        return false;
    self->streams[(self->first + self->count++) % OUTGOING_STREAMS] = *stream;
    return true;
}

static size_t encode_prefix(const outgoing_stream *stream, size_t size, uint8_t *prefix)
{
    if (stream->tag == OUTGOING_PARAMETERS)
        return wire_parameters_encode(
            &(wire_parameters){
                .round = stream->round,
                .first = stream->sent / sizeof(float),
                .count = size / sizeof(float),
            },
            prefix);
    return wire_blob_encode(
        &(wire_blob){
            .kind = outgoing_kind(stream->tag),
            .index = stream->index,
            .total = stream->size,
            .first = stream->sent,
            .count = size,
        },
        prefix);
}

static void drop_first(outgoing *self)
{
    self->first = (self->first + 1) % OUTGOING_STREAMS;
    self->count--;
}

bool outgoing_pump(outgoing *self, channel *to, void (*released)(void *user, void *owner),
                   void *owner)
{
    while (self->count > 0 && channel_loads(to) < OUTGOING_WINDOW) {
        outgoing_stream *stream = &self->streams[self->first];
        uint64_t left = stream->size - stream->sent;
        size_t size = left < OUTGOING_PIECE ? (size_t)left : OUTGOING_PIECE;
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        size_t fixed = encode_prefix(stream, size, prefix);
        if (size == 0) { /* a chunk without samples */
            if (!channel_send(to, prefix, fixed))
                return false;
            drop_first(self);
            continue;
        }
        channel_load load = {
            .bytes = stream->bytes + stream->sent,
            .size = size,
            .tag = stream->tag,
            .released = released,
            .owner = owner,
        };
        if (!channel_send_load(to, prefix, fixed, &load))
            return false;
        stream->sent += size;
        if (stream->sent == stream->size)
            drop_first(self);
    }
    return true;
}

bool outgoing_drop(outgoing *self, channel *to, outgoing_tag tag)
{
    uint32_t count = self->count;
    self->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        outgoing_stream stream = self->streams[(self->first + i) % OUTGOING_STREAMS];
        if (stream.tag != tag)
            self->streams[(self->first + self->count++) % OUTGOING_STREAMS] = stream;
    }
    return !channel_drop(to, tag) || channel_detach(to, tag);
}

bool outgoing_has(const outgoing *self, outgoing_tag tag)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->streams[(self->first + i) % OUTGOING_STREAMS].tag == tag)
            return true;
    return false;
}
