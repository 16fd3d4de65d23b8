/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/outgoing.h"

bool outgoing_add(outgoing *its, const outgoing_stream *stream)
{
    if (its->count == OUTGOING_STREAMS)
        return false;
    its->streams[(its->first + its->count++) % OUTGOING_STREAMS] = *stream;
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
            .kind = stream->tag == OUTGOING_PLAN  ? WIRE_BLOB_PLAN
                    : stream->tag == OUTGOING_JOB ? WIRE_BLOB_JOB
                                                  : WIRE_BLOB_DATA,
            .index = stream->index,
            .total = stream->size,
            .first = stream->sent,
            .count = size,
        },
        prefix);
}

static void drop_first(outgoing *its)
{
    its->first = (its->first + 1) % OUTGOING_STREAMS;
    its->count--;
}

bool outgoing_pump(outgoing *its, channel *to, void (*released)(void *user, void *owner),
                   void *owner)
{
    while (its->count > 0 && channel_loads(to) < OUTGOING_WINDOW) {
        outgoing_stream *stream = &its->streams[its->first];
        uint64_t left = stream->size - stream->sent;
        size_t size = left < OUTGOING_PIECE ? (size_t)left : OUTGOING_PIECE;
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        size_t fixed = encode_prefix(stream, size, prefix);
        if (size == 0) { /* a chunk without samples */
            if (!channel_send(to, prefix, fixed))
                return false;
            drop_first(its);
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
            drop_first(its);
    }
    return true;
}

bool outgoing_drop(outgoing *its, channel *to, outgoing_tag tag)
{
    uint32_t count = its->count;
    its->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        outgoing_stream stream = its->streams[(its->first + i) % OUTGOING_STREAMS];
        if (stream.tag != tag)
            its->streams[(its->first + its->count++) % OUTGOING_STREAMS] = stream;
    }
    return !channel_drop(to, tag) || channel_detach(to, tag);
}

bool outgoing_has(const outgoing *its, outgoing_tag tag)
{
    for (uint32_t i = 0; i < its->count; i++)
        if (its->streams[(its->first + i) % OUTGOING_STREAMS].tag == tag)
            return true;
    return false;
}
