/* SPDX-License-Identifier: Apache-2.0 */
/* What goes up. A lane's frames keep their order: reports that wait go out before anything else. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/relay/relay_state.h"

enum { SPARE_BUFFERS = 64 };

static bool is_up(const tcp_relay *self)
{
    return self->trunk.stage == TRUNK_UP;
}

/* Room for a frame of `size` bytes; NULL: there is none, and the trunk is lost. */
static uint8_t *scratch(tcp_relay *self, size_t size)
{
    if (size <= self->scratch_room)
        return self->scratch;
    size_t room = memory_room(self->scratch_room, size, WIRE_LANE_OPEN_BYTES);
    uint8_t *grown = memory_grow(&self->allocator, self->scratch, 0, room, 1);
    if (grown == NULL) {
        relay_trunk_lose(self, "out of memory");
        return NULL;
    }
    self->scratch = grown;
    self->scratch_room = room;
    return grown;
}

static void send_frame(tcp_relay *self, const uint8_t *frame, size_t size)
{
    relay_up_flush(self);
    if (is_up(self))
        channel_send(self->trunk.channel, frame, size);
}

/* What a peer is called, as a text of the wire may have it. */
static void printable(const char *text, char out[WIRE_TEXT_BYTES + 1])
{
    snprintf(out, WIRE_TEXT_BYTES + 1, "%s", text);
    for (char *at = out; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

void relay_up_open(relay_child *child)
{
    tcp_relay *self = child->relay;
    wire_lane_open open = {.lane = child->lane, .trusted = child->trusted};
    X509 *certificate = channel_certificate(child->channel);
    uint8_t *der = NULL;
    int size = certificate != NULL ? i2d_X509(certificate, &der) : 0;
    uint8_t *frame = scratch(self, WIRE_HEAD_BYTES + WIRE_LANE_OPEN_BYTES);
    if (frame == NULL)
        goto release;
    if (size > 0 && size <= WIRE_CERTIFICATE_BYTES) {
        open.size = (uint16_t)size;
        open.certificate = der;
    }
    printable(channel_peer(child->channel), open.from);
    if (open.trusted || open.size > 0)
        send_frame(self, frame, wire_lane_open_encode(&open, frame));
release:
    OPENSSL_free(der);
}

void relay_up_frame(relay_child *child, wire_kind kind, const uint8_t *body, uint32_t size)
{
    tcp_relay *self = child->relay;
    size_t head = WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES, all = head + WIRE_HEAD_BYTES + size;
    uint8_t *frame = scratch(self, all);
    if (frame == NULL)
        return;
    wire_lane_head(child->lane, WIRE_HEAD_BYTES + (size_t)size, frame);
    wire_head_encode(kind, size, frame + head);
    if (size > 0)
        memcpy(frame + head + WIRE_HEAD_BYTES, body, size);
    send_frame(self, frame, all);
}

void relay_up_flush(tcp_relay *self)
{
    relay_batch *batch = &self->batch;
    if (batch->head.count == 0)
        return;
    size_t size = wire_batch_encode(&batch->head, batch->frame);
    self->work.reports += batch->head.count;
    self->work.batches++;
    batch->head.count = 0;
    if (is_up(self))
        channel_send(self->trunk.channel, batch->frame, size);
}

void relay_up_report(relay_child *child, const tarry_message *report)
{
    tcp_relay *self = child->relay;
    relay_batch *batch = &self->batch;
    wire_batch *head = &batch->head;
    if (head->count == WIRE_BATCH_MOST || head->round != report->round ||
        head->term != report->term || head->norms != report->normed)
        relay_up_flush(self);
    if (head->count == 0)
        *head = (wire_batch){
            .round = report->round, .term = report->term, .lanes = true, .norms = report->normed};
    wire_batch_put(head, batch->frame, head->count, child->lane, report);
    head->count++;
}

void relay_up_end(tcp_relay *self, uint32_t lane, wire_lane_reason reason, const char *why)
{
    wire_lane_end end = {.lane = lane, .reason = reason};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    printable(why, end.text);
    send_frame(self, frame, wire_lane_end_encode(&end, frame));
}

void relay_up_fetch(tcp_relay *self, wire_blob_kind kind, uint32_t index)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    send_frame(self, frame, wire_fetch_encode(&(wire_fetch){.kind = kind, .index = index}, frame));
}

void relay_up_advertise(tcp_relay *self)
{
    wire_advertise words;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (self->advertised[0] == '\0')
        return;
    snprintf(words.address, sizeof(words.address), "%s", self->advertised);
    send_frame(self, frame, wire_advertise_encode(&words, frame));
}

void relay_up_heard(tcp_relay *self)
{
    if (!self->has_heard || !is_up(self))
        return;
    uint32_t first = 0, size = (self->lane_room + 7) / 8;
    while (size > 1 && self->heard[first + size - 1] == 0)
        size--;
    while (size > 1 && self->heard[first] == 0) {
        first++;
        size--;
    }
    const wire_heard heard = {.first = 8 * first, .size = size, .bits = self->heard + first};
    uint8_t *frame = scratch(self, WIRE_HEAD_BYTES + WIRE_SMALL_BYTES + WIRE_HEARD_BYTES);
    if (frame == NULL)
        return;
    send_frame(self, frame, wire_heard_encode(&heard, frame));
    memset(self->heard, 0, WIRE_HEARD_BYTES);
    self->has_heard = false;
}

/* ---- coded parts ---- */

relay_buffer *relay_buffer_take(tcp_relay *self, size_t bytes)
{
    relay_buffer *buffer = self->spare;
    if (buffer != NULL && buffer->room >= bytes) {
        self->spare = buffer->next;
        self->spare_count--;
        buffer->size = bytes;
        return buffer;
    }
    buffer = memory_allocate(&self->allocator, sizeof(*buffer) + bytes, 1);
    if (buffer == NULL)
        return NULL;
    buffer->relay = self;
    buffer->room = buffer->size = bytes;
    return buffer;
}

void relay_buffer_release(relay_buffer *buffer)
{
    if (buffer == NULL)
        return;
    tcp_relay *self = buffer->relay;
    if (self->spare_count == SPARE_BUFFERS || self->stopping) {
        memory_release(&self->allocator, buffer);
        return;
    }
    buffer->next = self->spare;
    self->spare = buffer;
    self->spare_count++;
}

void relay_buffers_free(tcp_relay *self)
{
    while (self->spare != NULL) {
        relay_buffer *buffer = self->spare;
        self->spare = buffer->next;
        memory_release(&self->allocator, buffer);
    }
    self->spare_count = 0;
}

static void on_sent(void *user, void *owner)
{
    (void)user;
    relay_buffer_release(owner);
}

void relay_up_part(relay_child *child, relay_buffer *buffer)
{
    tcp_relay *self = child->relay;
    wire_lane_part part = {.lane = child->lane, .bytes = buffer->size};
    uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    memcpy(part.message, buffer->message, CODEC_HEADER_BYTES);
    size_t size = wire_lane_part_encode(&part, prefix);
    const channel_load load = {
        .bytes = buffer->numbers,
        .size = buffer->size,
        .released = on_sent,
        .owner = buffer,
    };
    relay_up_flush(self);
    self->work.parts++;
    if (!is_up(self) || !channel_send_load(self->trunk.channel, prefix, size, &load))
        relay_buffer_release(buffer);
}
