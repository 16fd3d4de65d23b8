/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/pass_message.h"

#include <string.h>

#include "base/bytes.h"

enum { TICKET = 9, SUM = 24, RANGE = 12 };

static bool has_sum(pass_type type)
{
    return type == PASS_ASK_SUM_PIECE || type == PASS_ASK_STATE || type == PASS_STATE;
}

static bool has_range(pass_type type)
{
    return type == PASS_ASK_SUM_PIECE || type == PASS_ASK_STATE_PIECE || type == PASS_PIECE;
}

static size_t head_of(pass_type type)
{
    return TICKET + (has_sum(type) ? SUM : 0U) + (has_range(type) ? RANGE : 0U) +
           (type == PASS_STATE ? sizeof(uint64_t) + PASS_DIGEST : 0U);
}

size_t pass_encode(const pass_message *message, uint8_t bytes[PASS_MOST_HEAD])
{
    uint8_t *at = bytes_put(bytes, message->type, 1);
    at = bytes_put(at, message->ticket, 8);
    if (has_sum(message->type)) {
        at = bytes_put(at, message->sum.step, 8);
        at = bytes_put(at, message->sum.term, 4);
        at = bytes_put(at, message->sum.attempt, 4);
        at = bytes_put(at, message->sum.digest, 8);
    }
    if (has_range(message->type)) {
        at = bytes_put(at, message->first, 8);
        at = bytes_put(at, message->size, 4);
    }
    if (message->type == PASS_STATE) {
        at = bytes_put(at, message->first, 8);
        memcpy(at, message->digest, PASS_DIGEST);
    }
    return head_of(message->type);
}

bool pass_decode(const uint8_t *bytes, size_t size, uint32_t longest, pass_message *message)
{
    *message = (pass_message){.type = size > 0 ? bytes[0] : PASS_PIECE + 1U};
    if (message->type > PASS_PIECE || size < head_of(message->type))
        return false;
    const uint8_t *at = bytes + 1;
    message->ticket = bytes_get(at, 8);
    at += 8;
    if (has_sum(message->type)) {
        message->sum.step = bytes_get(at, 8);
        message->sum.term = (uint32_t)bytes_get(at + 8, 4);
        message->sum.attempt = (uint32_t)bytes_get(at + 12, 4);
        message->sum.digest = bytes_get(at + 16, 8);
        at += SUM;
    }
    if (has_range(message->type)) {
        message->first = bytes_get(at, 8);
        message->size = (uint32_t)bytes_get(at + 8, 4);
        at += RANGE;
    }
    if (message->type == PASS_STATE) {
        message->first = bytes_get(at, 8);
        memcpy(message->digest, at + 8, PASS_DIGEST);
    }
    message->bytes = at;
    size_t more = message->type == PASS_PIECE ? message->size : 0;
    return message->size <= longest && size == head_of(message->type) + more;
}
