/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what comes over a connection: frames one behind the other, until there is one that
 * is refused. What is read is written as the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A frame whose body is small, or of which that is small which stands before numbers. */
typedef struct small_frame {
    wire_head head;
    const uint8_t *body;
    uint8_t again[MOST_FRAME]; /* what was read of it, written */
    size_t size;               /* 0: it was refused */
    bool reworded;             /* it has a text, in which '?' may stand for what came */
    bool foreign;              /* a HELLO or GREETING of which not all was read */
} small_frame;

static void read_and_write(small_frame *frame)
{
    const wire_kind kind = frame->head.kind;
    union {
        wire_any any;
        wire_welcome welcome;
    } read;
    tarry_diagnostic why;
    if (kind == WIRE_HEARTBEAT) {
        frame->size = wire_encode(kind, NULL, frame->again);
    } else if (kind == WIRE_WELCOME) {
        if (wire_welcome_decode(&frame->head, frame->body, &read.welcome, &why) == TARRY_OK)
            frame->size = wire_welcome_encode(&read.welcome, frame->again);
    } else if (wire_decode(&frame->head, frame->body, &read.any) == TARRY_OK) {
        frame->size = wire_encode(kind, &read.any, frame->again);
        frame->reworded = kind == WIRE_REFUSED;
        frame->foreign = (kind == WIRE_HELLO && read.any.hello.newest != WIRE_VERSION) ||
                         (kind == WIRE_GREETING && read.any.greeting.newest != WIRE_VERSION);
    } else {
        char text[WIRE_TEXT_BYTES];
        if (!wire_explain(&frame->head, frame->body, text, sizeof(text)))
            abort();
    }
}

/* Bytes that differ are those of a text, where a '?' stands. */
static void compare(const uint8_t *frame, const uint8_t *again, size_t size, bool reworded)
{
    for (size_t i = 0; i < size; i++)
        if (again[i] != frame[i] && !(reworded && again[i] == '?'))
            abort();
}

static bool take_small(const uint8_t *frame, const wire_head *head, const uint8_t *body,
                       size_t fixed)
{
    small_frame small = {.head = *head, .body = body};
    read_and_write(&small);
    if (small.size == 0)
        return false;
    if (small.foreign)
        return true;
    if (small.size != WIRE_HEAD_BYTES + fixed)
        abort();
    compare(frame, small.again, small.size, small.reworded);
    return true;
}

static size_t write_batch(const wire_head *head, const uint8_t *body, uint8_t *again)
{
    wire_batch batch;
    if (wire_batch_decode(head, body, &batch) != TARRY_OK)
        return 0;
    for (uint32_t i = 0; i < batch.count; i++) {
        tarry_message report;
        wire_batch_get(&batch, i, &report);
        wire_batch_put(again, i, &report);
    }
    return wire_batch_encode(&batch, again);
}

static size_t write_key(const wire_head *head, const uint8_t *body, uint8_t *again)
{
    wire_key read;
    return wire_decode(head, body, &read) == TARRY_OK ? wire_encode(WIRE_KEY, &read, again) : 0;
}

/* Frames that may be longer than the small ones. */
static bool take_long(const uint8_t *frame, const wire_head *head, const uint8_t *body)
{
    uint8_t *again = malloc(WIRE_HEAD_BYTES + head->length);
    if (again == NULL)
        abort();
    size_t size =
        head->kind == WIRE_BATCH ? write_batch(head, body, again) : write_key(head, body, again);
    if (size > 0 && size != WIRE_HEAD_BYTES + head->length)
        abort();
    if (size > 0)
        compare(frame, again, size, false);
    free(again);
    return size > 0;
}

static bool is_long(wire_kind kind)
{
    return kind == WIRE_BATCH || kind == WIRE_KEY;
}

/* Gives back how many bytes the frame takes; 0 if it is refused, or not all of it is there. */
static size_t take_frame(const uint8_t *frame, size_t size)
{
    wire_head head;
    uint8_t again[WIRE_HEAD_BYTES];
    if (size < WIRE_HEAD_BYTES || wire_head_decode(frame, &head) != TARRY_OK)
        return 0;
    wire_head_encode(head.kind, head.length, again);
    if (memcmp(again, frame, WIRE_HEAD_BYTES) != 0)
        abort();
    size_t left = size - WIRE_HEAD_BYTES;
    if (left == 0 && head.length > 0)
        return 0;
    size_t fixed = wire_fixed_length(&head, head.length > 0 ? frame[WIRE_HEAD_BYTES] : 0);
    if (fixed > head.length)
        abort();
    if (fixed > left || (fixed == 0 && head.length > 0))
        return 0;
    /* A block of its very size, so that the sanitizer sees a step beyond it. */
    uint8_t *body = malloc(fixed > 0 ? fixed : 1);
    if (body == NULL)
        abort();
    memcpy(body, frame + WIRE_HEAD_BYTES, fixed);
    bool opaque = head.kind == WIRE_MESSAGE || head.kind == WIRE_STATUS; /* fuzz_status.c */
    bool taken = opaque               ? true
                 : is_long(head.kind) ? take_long(frame, &head, body)
                                      : take_small(frame, &head, body, fixed);
    free(body);
    return taken && head.length <= left ? WIRE_HEAD_BYTES + head.length : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t taken; (taken = take_frame(data, size)) > 0; size -= taken)
        data += taken;
    return 0;
}
