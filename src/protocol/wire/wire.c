/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire.h"

#include <assert.h>

#include "base/bytes.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire_batch.h"
#include "protocol/wire/wire_layout.h"
#include "protocol/wire/wire_secure.h"

enum { NUMBER_BYTES = 4 };

_Static_assert(WIRE_MESSAGE_BYTES < LAYOUT_PART + WIRE_NUMBERS_MOST * NUMBER_BYTES,
               "the longest body of a MESSAGE is a PART's");

/* The shortest and the longest body of each kind. */
static const struct {
    uint32_t least, most;
} limits[WIRE_KINDS] = {
    [WIRE_HELLO] = {LAYOUT_HELLO_VERSIONS, WIRE_SMALL_BYTES},
    [WIRE_WELCOME] = {LAYOUT_WELCOME + 1, LAYOUT_WELCOME + 1 + WIRE_TEXT_BYTES +
                                              WIRE_MATRIX_BYTES *TARRY_COMPRESS_MATRICES_MOST},
    [WIRE_REFUSED] = {LAYOUT_REFUSED + 1, LAYOUT_REFUSED + 1 + WIRE_TEXT_BYTES},
    [WIRE_HEARTBEAT] = {0, 0},
    [WIRE_BYE] = {LAYOUT_BYE, LAYOUT_BYE},
    [WIRE_MESSAGE] = {LAYOUT_PART, LAYOUT_PART + WIRE_NUMBERS_MOST *NUMBER_BYTES},
    [WIRE_PARAMETERS] = {LAYOUT_PARAMETERS + NUMBER_BYTES,
                         LAYOUT_PARAMETERS + WIRE_NUMBERS_MOST *NUMBER_BYTES},
    [WIRE_BLOB] = {LAYOUT_BLOB, LAYOUT_BLOB + WIRE_BLOB_BYTES},
    [WIRE_FETCH] = {LAYOUT_FETCH, LAYOUT_FETCH},
    [WIRE_READY] = {LAYOUT_READY, LAYOUT_READY + WIRE_ENGINE_BYTES},
    [WIRE_SHARE] = {LAYOUT_SHARE + 1, LAYOUT_SHARE + 1 + WIRE_TEXT_BYTES},
    [WIRE_SHARED] = {LAYOUT_SHARED, LAYOUT_SHARED},
    [WIRE_STATUS] = {LAYOUT_STATUS + 1, LAYOUT_STATUS + 1 + WIRE_TEXT_BYTES +
                                            WIRE_STATUS_MOST_WORKERS *LAYOUT_STATUS_WORKER},
    [WIRE_MEMBER] = {LAYOUT_MEMBER, LAYOUT_MEMBER + WIRE_ENGINE_BYTES},
    [WIRE_GREETING] = {LAYOUT_GREETING_VERSIONS, WIRE_SMALL_BYTES},
    [WIRE_BEGUN] = {LAYOUT_BEGUN, LAYOUT_BEGUN},
    [WIRE_BLOCK] = {LAYOUT_BLOCK + 1, LAYOUT_BLOCK + WIRE_BLOCK_NUMBERS *NUMBER_BYTES},
    [WIRE_ASK] = {LAYOUT_ASK, LAYOUT_ASK},
    [WIRE_ANSWER] = {LAYOUT_ANSWER, LAYOUT_ANSWER},
    [WIRE_PIECE] = {LAYOUT_PIECE + 1, LAYOUT_PIECE + WIRE_PIECE_BYTES},
    [WIRE_BATCH] = {WIRE_BATCH_HEAD_BYTES + WIRE_BATCH_REPORT_BYTES,
                    WIRE_BATCH_HEAD_BYTES + WIRE_BATCH_MOST *WIRE_BATCH_REPORT_BYTES},
    [WIRE_VIEW] = {LAYOUT_VIEW + 2, LAYOUT_VIEW + WIRE_VIEW_NUMBERS *NUMBER_BYTES},
    [WIRE_SECURE] = {LAYOUT_SECURE, LAYOUT_SECURE},
    [WIRE_KEY] = {LAYOUT_KEY + 2, WIRE_KEY_FRAME_BYTES},
};

uint32_t wire_most_length(wire_kind kind)
{
    assert(kind >= WIRE_HELLO && kind < WIRE_KINDS);
    return limits[kind].most;
}

int wire_head_decode(const uint8_t bytes[WIRE_HEAD_BYTES], wire_head *head)
{
    uint64_t all = bytes_get(bytes, WIRE_HEAD_BYTES);
    uint32_t length = (uint32_t)all;
    uint64_t kind = all >> 32; /* with what is reserved, which is zero */
    if (kind < WIRE_HELLO || kind >= WIRE_KINDS)
        return TARRY_ERROR_FORMAT;
    if (length < limits[kind].least || length > limits[kind].most)
        return TARRY_ERROR_FORMAT;
    *head = (wire_head){.kind = (wire_kind)kind, .length = length};
    return TARRY_OK;
}

void wire_head_encode(wire_kind kind, uint32_t length, uint8_t bytes[WIRE_HEAD_BYTES])
{
    assert(length <= wire_most_length(kind));
    bytes_put(bytes_put(bytes, length, 4), kind, 4);
}

uint32_t wire_fixed_length_of_large(const wire_head *head, uint8_t first)
{
    if (head->kind == WIRE_PARAMETERS)
        return LAYOUT_PARAMETERS;
    if (head->kind == WIRE_VIEW)
        return LAYOUT_VIEW;
    if (head->kind == WIRE_BLOB)
        return LAYOUT_BLOB;
    if (head->kind == WIRE_BLOCK)
        return LAYOUT_BLOCK;
    if (head->kind == WIRE_PIECE)
        return LAYOUT_PIECE;
    if (head->kind == WIRE_MESSAGE && first == TARRY_MESSAGE_PART)
        return LAYOUT_PART;
    return head->length;
}

void wire_message_head(size_t size, size_t behind, uint8_t bytes[WIRE_HEAD_BYTES])
{
    assert(size <= WIRE_MESSAGE_BYTES && behind <= WIRE_NUMBERS_MOST * NUMBER_BYTES);
    wire_head_encode(WIRE_MESSAGE, (uint32_t)(size + behind), bytes);
}

static const struct {
    const char *text;
    bool passes;
} reasons[WIRE_REASONS] = {
    [WIRE_REFUSED_VERSION] = {"no version of the protocol that both speak", false},
    [WIRE_REFUSED_FORMAT] = {"what came is not of this protocol", false},
    [WIRE_REFUSED_IDENTITY] = {"the credential does not allow this role or id", false},
    [WIRE_REFUSED_REVOKED] = {"the credential is revoked", false},
    [WIRE_REFUSED_RANGE] = {"no such worker in this job", false},
    [WIRE_REFUSED_TAKEN] = {"another worker with this id is there", true},
    [WIRE_REFUSED_FULL] = {"no worker's id is free", true},
    [WIRE_REFUSED_DATA] = {"the data are not those of this job", false},
    [WIRE_REFUSED_FLOOD] = {"more messages than a worker has to say", false},
    [WIRE_REFUSED_CLOSING] = {"the run ends", true},
    [WIRE_REFUSED_ARRIVALS] = {"came back too often lately", true},
    [WIRE_REFUSED_RANKING] = {"ranks and coefficients come about in another way", false},
};

static bool is_reason(wire_reason reason)
{
    return reason >= WIRE_REFUSED_VERSION && reason < WIRE_REASONS;
}

const char *wire_reason_text(wire_reason reason)
{
    return is_reason(reason) ? reasons[reason].text : "unknown reason";
}

bool wire_reason_passes(wire_reason reason)
{
    return is_reason(reason) && reasons[reason].passes;
}
