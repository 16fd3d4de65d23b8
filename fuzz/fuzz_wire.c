/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what comes over a connection: frames one behind the other, until there is one that
 * is refused. What is read is written as the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire.h"
#include "protocol/wire/wire_batch.h"
#include "protocol/wire/wire_mesh.h"
#include "protocol/wire/wire_secure.h"
#include "protocol/wire/wire_status.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_SMALL_BYTES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A frame whose body is small, or of which that is small which stands before numbers. */
typedef struct small_frame {
    wire_head head;
    const uint8_t *body;
    uint8_t again[MOST_FRAME]; /* what was read of it, written */
    size_t size;               /* 0: it was refused */
    bool reworded;             /* it has a text, in which '?' may stand for what came */
    bool foreign;              /* a HELLO of which not all was read */
} small_frame;

#define READ_AND_WRITE(noun)                                                                       \
    do {                                                                                           \
        wire_##noun read;                                                                          \
        if (wire_##noun##_decode(&frame->head, frame->body, &read) == TARRY_OK)                    \
            frame->size = wire_##noun##_encode(&read, frame->again);                               \
    } while (false)

static void read_hello(small_frame *frame)
{
    wire_hello read;
    if (wire_hello_decode(&frame->head, frame->body, &read) != TARRY_OK)
        return;
    frame->size = wire_hello_encode(&read, frame->again);
    frame->foreign = read.newest != WIRE_VERSION;
}

static void read_greeting(small_frame *frame)
{
    wire_greeting read;
    if (wire_greeting_decode(&frame->head, frame->body, &read) != TARRY_OK)
        return;
    frame->size = wire_greeting_encode(&read, frame->again);
    frame->foreign = read.oldest > WIRE_VERSION || read.newest < WIRE_VERSION;
}

static void read_bye(small_frame *frame)
{
    wire_bye read;
    if (wire_bye_decode(&frame->head, frame->body, &read) == TARRY_OK)
        frame->size = wire_bye_encode(read, frame->again);
}

static void read_view(small_frame *frame)
{
    view_piece read;
    if (wire_view_decode(&frame->head, frame->body, &read) == TARRY_OK)
        frame->size = wire_view_encode(&read, frame->again);
}

static void read_and_write(small_frame *frame)
{
    switch (frame->head.kind) {
    case WIRE_HELLO:
        read_hello(frame);
        break;
    case WIRE_WELCOME:
        READ_AND_WRITE(welcome);
        break;
    case WIRE_REFUSED:
        frame->reworded = true;
        READ_AND_WRITE(refused);
        break;
    case WIRE_HEARTBEAT:
        frame->size = wire_heartbeat_encode(frame->again);
        break;
    case WIRE_BYE:
        read_bye(frame);
        break;
    case WIRE_PARAMETERS:
        READ_AND_WRITE(parameters);
        break;
    case WIRE_VIEW:
        read_view(frame);
        break;
    case WIRE_BLOB:
        READ_AND_WRITE(blob);
        break;
    case WIRE_FETCH:
        READ_AND_WRITE(fetch);
        break;
    case WIRE_READY:
        READ_AND_WRITE(ready);
        break;
    case WIRE_SHARE:
        READ_AND_WRITE(share);
        break;
    case WIRE_SHARED:
        READ_AND_WRITE(shared);
        break;
    case WIRE_MEMBER:
        READ_AND_WRITE(member);
        break;
    case WIRE_GREETING:
        read_greeting(frame);
        break;
    case WIRE_BEGUN:
        READ_AND_WRITE(begun);
        break;
    case WIRE_BLOCK:
        READ_AND_WRITE(block);
        break;
    case WIRE_ASK:
        READ_AND_WRITE(ask);
        break;
    case WIRE_ANSWER:
        READ_AND_WRITE(answer);
        break;
    case WIRE_PIECE:
        READ_AND_WRITE(piece);
        break;
    case WIRE_SECURE:
        READ_AND_WRITE(secure);
        break;
    case WIRE_BATCH: /* take_long */
    case WIRE_KEY:
    case WIRE_MESSAGE: /* fuzz_codec.c */
    case WIRE_STATUS:
    case WIRE_KINDS:
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

static bool take_status(const uint8_t *frame, const wire_head *head, const uint8_t *body)
{
    wire_status status;
    if (wire_status_decode(head, body, &status) != TARRY_OK)
        return false;
    wire_worker_status *worker = calloc((size_t)status.workers + 1, sizeof(*worker));
    uint8_t *again = malloc(WIRE_HEAD_BYTES + head->length);
    if (worker == NULL || again == NULL)
        abort();
    bool whole = true;
    for (uint32_t j = 0; whole && j < status.workers; j++)
        whole = wire_status_worker(head, body, j, &worker[j]) == TARRY_OK;
    /* A character of several bytes may have become one '?': then the rest has moved. */
    size_t size = wire_status_size(&status);
    if (size > WIRE_HEAD_BYTES + head->length)
        abort();
    if (whole && size == WIRE_HEAD_BYTES + head->length) {
        wire_status_encode(&status, worker, again);
        compare(frame, again, size, true);
    }
    free(again);
    free(worker);
    return whole;
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
    return wire_key_decode(head, body, &read) == TARRY_OK ? wire_key_encode(&read, again) : 0;
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
    bool taken = head.kind == WIRE_MESSAGE  ? true
                 : head.kind == WIRE_STATUS ? take_status(frame, &head, body)
                 : is_long(head.kind)       ? take_long(frame, &head, body)
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
