/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/outgoing.h"

#include <assert.h>

/* Of BLOB frames; of no PARAMETERS. */
static wire_blob_kind kind_of(outgoing_tag tag)
{
    return tag == OUTGOING_PLAN  ? WIRE_BLOB_PLAN
           : tag == OUTGOING_JOB ? WIRE_BLOB_JOB
                                 : WIRE_BLOB_DATA;
}

_Static_assert((int)VIEW_PIECE == (int)WIRE_VIEW_NUMBERS, "a piece is a frame");

bool outgoing_add(outgoing *self, const outgoing_stream *stream)
{
    if (stream->from != NULL)
        view_reader_begin(&self->reader, stream->round);
    if (stream->from != NULL && view_reader_is_done(&self->reader))
        return true; /* it has it */
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
            .kind = kind_of(stream->tag),
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

/* The next piece of the stream: its frame up to its bytes, and these. */
static size_t next_piece(outgoing *self, outgoing_stream *stream, uint8_t *prefix,
                         channel_load *load)
{
    view_piece piece;
    const uint8_t *bytes;
    if (stream->from != NULL) {
        bool there = view_reader_next(&self->reader, stream->from, &piece, &bytes);
        assert(there); /* it would be sent already */
        (void)there;
        load->bytes = bytes;
        load->size = view_piece_bytes(&piece);
        return wire_view_encode(&piece, prefix);
    }
    uint64_t left = stream->size - stream->sent;
    load->size = left < OUTGOING_PIECE ? (size_t)left : OUTGOING_PIECE;
    load->bytes = stream->bytes + stream->sent;
    size_t fixed = encode_prefix(stream, load->size, prefix);
    stream->sent += load->size;
    return fixed;
}

static bool is_sent(const outgoing *self, const outgoing_stream *stream)
{
    return stream->from != NULL ? view_reader_is_done(&self->reader) : stream->sent == stream->size;
}

bool outgoing_pump(outgoing *self, channel *to, void (*released)(void *user, void *owner),
                   void *owner)
{
    while (self->count > 0 && channel_loads(to) < OUTGOING_WINDOW) {
        outgoing_stream *stream = &self->streams[self->first];
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        channel_load load = {.tag = stream->tag, .released = released, .owner = owner};
        size_t fixed = next_piece(self, stream, prefix, &load);
        if (load.size == 0) { /* a chunk without samples */
            if (!channel_send(to, prefix, fixed))
                return false;
            drop_first(self);
            continue;
        }
        if (!channel_send_load(to, prefix, fixed, &load))
            return false;
        if (is_sent(self, stream))
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
    size_t loads = channel_loads(to);
    bool begun = channel_drop(to, tag);
    if (tag == OUTGOING_PARAMETERS)
        view_reader_end(&self->reader, channel_loads(to) < loads);
    return !begun || channel_detach(to, tag);
}

bool outgoing_has(const outgoing *self, outgoing_tag tag)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->streams[(self->first + i) % OUTGOING_STREAMS].tag == tag)
            return true;
    return false;
}
